// The details of one picture: large, why it was found, what is known of it, what is like it. (Fetched when first opened.)

import { get, path, picture, post } from "./api.js";
import { button, count, el, icon, size, weight } from "./dom.js";
import { grouping } from "./grouping.js";
import { conditionText } from "./state.js";

// What people look for first; the rest is as the library has it.
const FIRST = ["title", "description", "keyword", "person", "rating", "creator", "location", "place", "city", "county", "region", "country"];
const order = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);

/** The dialog. `go` changes the state of the page: { open: item }, { like: item }, …; `place()` says which results it belongs to. */
export class Details {
  constructor(dialog, { go, close, address }) {
    Object.assign(this, { dialog, go, leave: close, address });
    this.item = null;
    this.abort = new AbortController();
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.leave();
    });
    dialog.addEventListener("click", (event) => event.target === dialog && this.leave());
    dialog.addEventListener("keydown", (event) => {
      if (event.target.matches("input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
      const to = { ArrowLeft: this.before, ArrowRight: this.after }[event.key];
      if (!to) return;
      event.preventDefault();
      this.go({ open: to }, { replace: true });
    });
  }

  hide() {
    this.abort.abort();
    this.item = null;
    if (this.dialog.open) this.dialog.close();
  }

  /** Show `item`, found by `column`'s question (its neighbours there are previous and next). */
  async show(item, column, library) {
    const at = column.hits.findIndex((hit) => hit.id === item);
    this.before = column.hits[at - 1]?.id;
    this.after = at < 0 ? undefined : column.hits[at + 1]?.id;
    if (at >= 0 && at >= column.hits.length - 4) column.more();
    if (this.item === item && this.of === library.name) {
      this.steps(at, column);
      return;
    }
    Object.assign(this, { item, of: library.name });
    const stepping = this.dialog.open;
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.frame(item, column.hits[at], library);
    this.steps(at, column);
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.scrollTop = 0;
    const { body } = column;
    // Who holds an arrow key down passes pictures by; those are not asked about.
    if (stepping) await new Promise((resolve) => setTimeout(resolve, 120));
    if (signal.aborted) return;
    const part = (section, work) => this.part(section, work, signal);
    await Promise.all([
      part(this.about, async () => {
        const known = await get(path(library.name, "items", item), signal);
        this.name.textContent = known.captions?.[0] ?? known.files?.[0]?.name ?? item;
        return this.facts(known, library);
      }),
      part(this.why, async () => body && reasons(await post(path(library.name, "items", item, "explain"), body, signal), body, column.hits[at], this.shown)),
      library.systems.length ? part(this.like, async () => this.likes(await get(`${path(library.name, "items", item, "similar")}?k=12`, signal))) : null,
    ]);
    if (!signal.aborted) this.once();
  }

  /** What stands among the captions nearest to the search is not said again below. */
  once() {
    const near = new Set([...this.why.querySelectorAll(".near span:first-child")].map((each) => each.textContent));
    for (const each of this.about.querySelectorAll(".others li")) if (near.has(each.textContent)) each.remove();
    if (!this.about.querySelector(".others li")) this.about.querySelector(".others")?.remove();
  }

  async part(section, work, signal) {
    section.setAttribute("aria-busy", "true");
    try {
      const content = await work();
      if (!signal.aborted) section.replaceChildren(...(content || []));
    } catch (failure) {
      if (signal.aborted || failure.name === "AbortError") return;
      section.replaceChildren(el("p", { class: "error", role: "alert" }, failure.message, " ", el("span", { class: "muted" }, failure.hint ?? "")));
    } finally {
      if (!signal.aborted) section.removeAttribute("aria-busy");
    }
  }

  steps(at, column) {
    const step = (item, label, name) =>
      el("button", { type: "button", class: "quiet", "aria-label": label, title: label, disabled: !item, onclick: () => this.go({ open: item }, { replace: true }) }, icon(name));
    const focused = this.bar.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    this.bar.replaceChildren(
      step(this.before, "Previous", "previous"),
      el("span", { class: "count", role: "status" }, at < 0 ? [] : [count(at + 1), el("span", { class: "of" }, ` of ${count(column.answer.total)}`)]),
      step(this.after, "Next", "next"),
      el("span", { class: "gap" }),
      column.library.systems.length ? button("More like this", () => this.go({ like: this.item, text: "", photo: null, lostPhoto: false, open: null }), null, icon("like"), "More like this") : "",
      el("button", { type: "button", class: "quiet", "aria-label": "Close", title: "Close (Esc)", onclick: () => this.leave() }, icon("close")),
    );
    const again = focused && this.bar.querySelector(`[aria-label="${focused}"]:not([disabled])`);
    (again || (focused && this.bar.querySelector('[aria-label="Close"]')) || null)?.focus();
  }

  frame(item, hit, library) {
    const first = !this.bar;
    this.bar ??= el("div", { class: "steps" });
    const name = hit?.caption || hit?.name || item;
    const address = path(library.name, "items", item);
    const image = el("img", { alt: name, width: hit?.width || null, height: hit?.height || null, decoding: "async" });
    const small = hit?.thumbnail ?? `${address}/thumbnail`;
    this.name = el("h2", { id: "details-name" }, name);
    this.why = el("section", { class: "why", "aria-label": "Why this picture" });
    this.about = el("section", { class: "about", "aria-label": "About this picture" });
    this.like = el("section", { class: "like", "aria-label": "Similar pictures" });
    const shown = (this.shown = el("div", { class: "picture" }, image));
    // The small picture is there already; the original takes its place when it has come, where there is one.
    const none = () => shown.replaceChildren(el("span", { class: "missing" }, "This picture cannot be shown."));
    const original = el("img", { alt: name, decoding: "async" });
    original.addEventListener("load", () => image.isConnected && image.replaceWith(original));
    original.addEventListener("error", () => (original.lost = true) && image.lost && none(), { once: true });
    image.addEventListener("error", () => (image.lost = true) && original.lost && none(), { once: true });
    picture(image, small);
    picture(original, `${address}/image`);
    const rest = el("div", { class: "facts", tabindex: "0", role: "region", "aria-label": "Details" }, this.name, this.why, this.about, this.like);
    if (first) this.dialog.replaceChildren(this.bar, shown, rest);
    else [this.dialog.children[1], this.dialog.children[2]].forEach((old, n) => old.replaceWith([shown, rest][n]));
  }

  facts(known, library) {
    const row = (name, ...value) => (value.filter((each) => each || each === 0).length ? [el("dt", null, name), el("dd", null, ...value)] : []);
    const { captions, duplicates } = known;
    const same = duplicates.map((item) => ({ id: item, name: "nearly the same picture", thumbnail: `${path(this.of, "items", item)}/thumbnail` }));
    const files = known.files.map((file) => el("div", { class: "file" }, el("span", null, file.path), copier(file.place ?? file.path)));
    const shots = library.unit === "products" && known.files.length > 2 ? this.shots(known.files.slice(1)) : null;
    return [
      shots,
      captions.length > 1 ? el("div", { class: "others" }, el("h3", null, "Its other captions"), el("ul", { class: "captions" }, captions.slice(1).map((text) => el("li", null, text)))) : null,
      el("h3", null, "About"),
      el(
        "dl",
        null,
        library.unit === "products" ? row("Product", files[0]) : row(files.length === 1 ? "File" : "Files", ...files),
        row("Size", known.width ? `${count(known.width)} × ${count(known.height)}` : "", known.bytes ? `, ${size(known.bytes)}` : "", known.format ? `, ${known.format}` : ""),
        row("Taken", known.taken ? String(known.taken).replace("T", " ").replace(/(\+00:00|Z)$/, " UTC") : ""),
        row("Camera", known.camera),
        row(library.folders === false ? "Category" : "Folder", known.category ? el("button", { type: "button", class: "link", onclick: () => this.go({ category: known.category, open: null }) }, known.category) : ""),
        Object.entries(known.fields)
          .filter(([name, value]) => name !== "category" || Array.isArray(value))
          .sort(([one], [other]) => order(one) - order(other))
          .map(([name, value]) => row(name, ...this.values(name, [value].flat(), grouping(library)))),
      ),
      same.length ? el("h3", null, "Nearly the same") : null,
      same.length ? this.strip(same) : null,
      known.words?.length ? el("h3", null, "Its words") : null,
      known.words?.length ? words(known.words) : null,
    ].filter(Boolean);
  }

  /** The values of a field; one that groups pictures leads to those that have it. */
  values(name, values, grouping) {
    const each = (value) => (grouping.includes(name) ? el("button", { type: "button", class: "link", onclick: () => this.go({ where: [conditionText({ field: name, op: "=", value })], text: "", like: null, photo: null, open: null }) }, String(value)) : String(value));
    return values.flatMap((value, at) => (at ? [", ", each(value)] : [each(value)]));
  }

  /** All pictures of a product; one that is clicked is shown large. */
  shots(files) {
    const show = (n) => {
      const image = this.shown.querySelector("img:last-of-type");
      if (image) picture(image, `${path(this.of, "items", this.item)}/image?n=${n}`);
    };
    const shot = (file, at) => {
      const image = el("img", { alt: file.name, loading: "lazy", width: 96, height: 96 });
      picture(image, `${path(this.of, "items", this.item)}/image?n=${at + 1}`);
      return el("li", null, el("button", { type: "button", class: "shot", "aria-label": `Show picture ${at + 1}`, onclick: () => show(at + 1) }, image));
    };
    return el("div", { class: "shots" }, el("h3", null, "Pictures"), el("ul", { class: "strip" }, files.map(shot)));
  }

  likes({ hits }) {
    const others = hits.filter((hit) => hit.id !== this.item).slice(0, 10);
    if (!others.length) return [];
    return [el("h3", null, "Similar pictures"), this.strip(others)];
  }

  strip(hits) {
    return el(
      "ul",
      { class: "strip" },
      hits.map((hit) => {
        const image = el("img", { alt: hit.caption || hit.name || "picture", loading: "lazy", width: 96, height: 96 });
        image.addEventListener("error", () => image.replaceWith(el("span", { class: "missing" }, image.alt)));
        if (hit.thumbnail) picture(image, hit.thumbnail);
        return el("li", null, el("a", { href: this.address(hit.id), onclick: (event) => this.follow(event, hit.id) }, hit.thumbnail ? image : el("span", { class: "missing" }, image.alt)));
      }),
    );
  }

  follow(event, item) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.go({ open: item });
  }
}

/** A button that copies a path, and says that it did. */
function copier(path) {
  const node = el("button", { type: "button", class: "quiet copy", "aria-label": `Copy the path ${path}`, title: `Copy ${path}` }, icon("copy"), el("span", { role: "status" }));
  const status = node.querySelector("span");
  node.addEventListener("click", async () => {
    let done = "copied";
    try {
      await navigator.clipboard.writeText(path);
    } catch {
      done = copyOld(node, path) ? done : "not allowed";
    }
    status.textContent = done;
    setTimeout(() => (status.textContent = ""), 2000);
  });
  return node;
}

/** Where the browser gives no clipboard (http from another machine): through a field that is selected. */
function copyOld(near, path) {
  const field = el("textarea", { class: "hidden", readonly: true });
  field.value = path;
  near.after(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  near.focus();
  return done;
}

/** Tokenizers cut rare words: "##ning" is the end of one. */
const whole = (word) => word.replace(/^##/, "…");

/** Words of the picture, heavier ones first, each with a bar. */
function words(list) {
  const most = Math.max(...list.map((word) => word.weight));
  return el("ul", { class: "words" }, list.slice(0, 24).map(({ word, weight: w }) => el("li", { style: { "--w": (w / most).toFixed(3) }, title: weight(w) }, whole(word))));
}

/** Why it was found: the parts of a fused score, words with the weights of both sides, the nearest captions. */
function reasons({ terms, captions, parts, words: query, regions, found_words: inWords }, body, hit, shown) {
  const found = [];
  const systems = Object.values(parts ?? {});
  if (hit?.rank) found.push(el("p", { class: "rank" }, "Rank ", el("b", null, count(hit.rank)), `, score ${weight(hit.score)}`, systems.length > 1 ? ", from" : ""));
  if (systems.length > 1) {
    found.push(
      el("table", { class: "parts" },
        el("thead", null, el("tr", null, ["System", "Rank", "Score"].map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", null, systems.map((part) => el("tr", null, el("th", { scope: "row" }, part.label), el("td", null, part.rank ? count(part.rank) : "not found"), el("td", null, weight(part.score))))),
      ),
    );
  }
  if (inWords?.length) {
    found.push(
      el("table", { class: "parts" },
        el("thead", null, el("tr", null, ["Word found", "In", "Score"].map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", null, inWords.map(({ words: each, fields, score }) => el("tr", null, el("th", { scope: "row" }, each.join(", ")), el("td", null, fields.join(", ")), el("td", null, weight(score))))),
      ),
    );
  }
  if (terms?.length) {
    const most = { query: Math.max(...terms.map((term) => term.query)), document: Math.max(...terms.map((term) => term.document)) };
    const bar = (term, side) => el("td", { class: side, style: { "--w": (term[side] / most[side]).toFixed(3) } }, el("span", null, weight(term[side])));
    found.push(
      el("table", { class: "pairs" },
        el("caption", null, "Words in common"),
        el("thead", null, el("tr", null, el("th", { scope: "col", class: "query" }, body.text ? "Search" : "Query"), el("th", { scope: "col" }, "Word"), el("th", { scope: "col", class: "document" }, "Picture"), el("th", { scope: "col" }, "Share"))),
        el("tbody", null, terms.slice(0, 12).map((term) => el("tr", null, bar(term, "query"), el("th", { scope: "row" }, whole(term.word)), bar(term, "document"), el("td", { class: "part" }, typeof term.share === "number" ? `${Math.round(term.share * 100)} %` : "")))),
      ),
    );
    if (terms.length > 12) found.push(el("p", { class: "muted" }, `and ${terms.length - 12} more words`));
  } else if (query?.length && terms) {
    found.push(el("p", { class: "muted" }, "No word in common."));
  }
  if (regions?.words.length || regions?.missing) found.push(...matches(regions, shown));
  if (captions?.length) {
    found.push(
      el("h4", null, "Captions nearest to the search"),
      el("ol", { class: "captions near" }, captions.map(({ text, score }) => el("li", null, el("span", null, text), el("span", { class: "muted" }, weight(score))))),
    );
  }
  return found.length ? [el("h3", null, "Why this picture"), ...found] : [];
}

/** The words of the search. What a word matched is marked in the picture while it is pointed at or focused, and stays so when it is pressed. */
function matches({ words, other, missing }, shown) {
  const most = Math.max(1e-9, ...words.map((word) => word.score)); // no score need be positive
  const overlay = svg("svg", { class: "overlay", "aria-hidden": "true" });
  const buttons = words.map((word) => {
    const node = el("button", { type: "button", "aria-pressed": "false", disabled: !word.boxes.length }, word.word, el("span", { class: "hidden" }, `: ${places(word.boxes)}, score`), el("span", { class: "muted" }, weight(word.score)));
    const mark = () => draw(pressed() ?? (node.matches(":hover, :focus-visible") ? word : null));
    node.addEventListener("click", () => {
      const on = node.getAttribute("aria-pressed") !== "true";
      for (const each of buttons) each.setAttribute("aria-pressed", String(each === node && on));
      draw(on ? word : null);
    });
    for (const event of ["pointerenter", "focus"]) node.addEventListener(event, () => draw(word));
    for (const event of ["pointerleave", "blur"]) node.addEventListener(event, mark);
    return node;
  });
  const pressed = () => words[buttons.findIndex((node) => node.getAttribute("aria-pressed") === "true")];
  const draw = (word) => {
    const image = shown.querySelector("img");
    if (!word || !image?.naturalWidth) return overlay.remove();
    const [width, height] = [image.naturalWidth, image.naturalHeight];
    const holes = word.boxes.map(([left, top, right, bottom]) => `M${left * width} ${top * height}H${right * width}V${bottom * height}H${left * width}Z`).join("");
    overlay.setAttribute("viewBox", `0 0 ${width} ${height}`);
    overlay.replaceChildren(svg("path", { class: "dim", d: `M0 0H${width}V${height}H0Z${holes}` }), svg("path", { class: "box", d: holes }));
    shown.append(overlay);
  };
  const why = missing ? el("p", { class: "muted" }, missing) : null;
  const rest = words.length && Math.abs(other) >= 0.005 ? el("p", { class: "muted" }, `Other tokens of the model: ${weight(other)}`) : null;
  const list = !words.length ? null : el("ul", { class: "words matched", "aria-labelledby": "matched" }, buttons.map((node, at) => el("li", { style: { "--w": Math.max(0, words[at].score / most).toFixed(3) } }, node)));
  return [el("h4", { id: "matched" }, "What each word matched in the picture"), list, rest, why].filter(Boolean);
}

/** Where boxes lie, for those who cannot see them: "top left", "centre". */
function places(boxes) {
  const third = (low, high, names) => names[Math.min(2, Math.floor(((low + high) / 2) * 3))];
  const names = boxes.map(([left, top, right, bottom]) => [third(top, bottom, ["top", "", "bottom"]), third(left, right, ["left", "", "right"])].filter(Boolean).join(" ") || "centre");
  return [...new Set(names)].join(" and ") || "no place";
}

function svg(name, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}
