// One column of results: a library asked by one system. It pages, cancels what is no longer asked, and marks what the
// other column has too.

import { askToken, get, path, picture, post } from "./api.js";
import { button, count, counted, duration, el, icon } from "./dom.js";

const PAGE = 36;
const FIRST = 12; // their pictures are asked for before the others
const DEEPEST = 1000; // the service pages no further
const BY_SCROLLING = 240; // beyond that the button is pressed

const kept = new Map(); // answers of this page, so that back is immediate
const KEPT = 40;

/** How wide a tile is for its height; very long pictures are cropped. */
const shape = ({ width, height }) => (width > 0 && height > 0 ? Math.min(2.2, Math.max(0.6, width / height)) : 1);

export class Column {
  /** `address(item)`: where the details of a result are; `open(item)`: open them; `shown()`: the results have
   * changed; `free()`: take filters and category away. */
  constructor({ label, address, open, shown, free }) {
    Object.assign(this, { address, open, shown, free });
    this.hits = [];
    this.question = "";
    this.abort = new AbortController();
    this.head = el("div", { class: "head", hidden: true });
    this.count = el("p", { class: "count", role: "status" });
    this.list = el("ol", { class: "grid", "aria-label": label });
    this.message = el("div", { class: "message" });
    this.further = button("More", () => this.more(), { class: "tool more", hidden: true });
    this.element = el("section", { class: "column", "aria-label": label }, this.head, this.count, this.message, this.list, this.further);
    this.list.addEventListener("click", (event) => this.clicked(event));
    this.list.addEventListener("keydown", (event) => this.arrows(event));
    this.list.addEventListener("focusin", (event) => this.rove(event.target.closest("a")));
    new IntersectionObserver((seen) => seen.at(-1).isIntersecting && this.hits.length < BY_SCROLLING && this.more(), { rootMargin: "200px" }).observe(this.further);
  }

  /** Ask, unless that is what was asked. `body`: of a search, or null to look through the library within `limits`. */
  async show(library, body, limits) {
    const question = JSON.stringify([library.name, library.generation, body, body ? null : limits]);
    if (question === this.question && !this.failed) return;
    Object.assign(this, { library, body, limits, question, failed: false, next: null });
    this.abort.abort();
    this.abort = new AbortController();
    const before = kept.get(question);
    if (before) {
      this.busy(false);
      this.replace(before.answer, before.hits, before.next);
      return;
    }
    this.busy(true);
    if (!this.hits.length && !this.list.firstChild) this.skeletons();
    await this.attempt(async (signal) => {
      const answer = await this.page(0, signal);
      this.replace(answer, answer.hits, answer.next_offset);
    });
  }

  async more() {
    if (this.next === null || this.next === undefined || this.loading || this.failed) return;
    this.loading = true;
    this.further.setAttribute("aria-busy", "true");
    await this.attempt(async (signal) => {
      const answer = await this.page(this.next, signal);
      this.append(answer.hits, answer.next_offset);
    });
    this.loading = false;
    this.further.removeAttribute("aria-busy");
  }

  page(offset, signal) {
    if (this.body) return post(path(this.library.name, "search"), { ...this.body, k: Math.min(PAGE, DEEPEST - offset), offset }, signal);
    const given = new URLSearchParams({ offset, k: PAGE });
    if (this.limits.category) given.set("category", this.limits.category);
    if (this.limits.where) given.set("where", JSON.stringify(this.limits.where));
    return get(`${path(this.library.name, "items")}?${given}`, signal).then((answer) => ({ ...answer, hits: answer.items }));
  }

  async attempt(work) {
    const { signal } = this.abort;
    try {
      await work(signal);
      if (signal.aborted) return;
      this.message.replaceChildren(...(this.hits.length ? [] : [this.nothing()]));
    } catch (failure) {
      if (signal.aborted || failure.name === "AbortError") return;
      this.fail(failure);
    }
    this.busy(false);
    this.loading = false;
  }

  replace(answer, hits, next) {
    this.answer = answer;
    this.hits = [];
    this.tail = [];
    this.list.replaceChildren();
    this.message.replaceChildren();
    this.count.after(this.message);
    this.append(hits, next);
    if (!hits.length) this.message.append(this.nothing());
    this.count.replaceChildren(...this.summary());
  }

  append(hits, next) {
    const at = this.hits.length;
    this.hits = this.hits.concat(hits);
    this.next = next;
    this.list.classList.remove("partial");
    this.list.classList.toggle("products", this.library.unit === "products");
    this.list.append(...this.tail, ...hits.map((hit, n) => this.tile(hit, at + n)));
    this.further.hidden = next === null || next === undefined;
    this.tail = this.further.hidden ? [] : this.unfinished();
    for (const tile of this.tail) tile.remove();
    this.list.classList.toggle("partial", this.tail.length > 0);
    kept.delete(this.question);
    kept.set(this.question, { answer: this.answer, hits: this.hits, next });
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
    this.rove(this.list.querySelector('a[tabindex="0"]') ?? this.list.querySelector("a"));
    this.shown();
  }

  /** The tiles of the last row: while more is to come they wait for the next page, which would move them. */
  unfinished() {
    const tiles = [...this.list.children];
    const first = tiles.findIndex((tile) => tile.offsetTop === tiles.at(-1).offsetTop);
    return first > 0 ? tiles.slice(first) : [];
  }

  tile(hit, at) {
    const name = hit.caption || hit.name || "picture";
    const image = el("img", { alt: hit.price ? `${name}, ${hit.price}` : name, width: hit.width || 1, height: hit.height || 1, loading: "lazy", decoding: "async", draggable: "false", fetchpriority: at < FIRST ? "high" : "low" });
    const missing = () => image.replaceWith(el("span", { class: "missing" }, this.library.unit === "products" ? [icon("photo"), el("span", { class: "hidden" }, image.alt)] : name));
    image.addEventListener("error", missing);
    const tile = el(
      "a",
      { href: this.address(hit.id), "data-item": hit.id, tabindex: "-1" },
      image,
      el("span", { class: "label", "aria-hidden": "true" }, el("span", { class: "headline" }, this.body ? el("b", null, count(hit.rank)) : null, name), hit.price ? el("span", { class: "price" }, hit.price) : null),
    );
    if (hit.thumbnail) picture(image, hit.thumbnail);
    else missing();
    return el("li", { style: { "--r": shape(hit).toFixed(4) } }, tile);
  }

  summary() {
    const { total, matched, seconds, order, system } = this.answer;
    const { body } = this;
    if (!total) return [];
    let found = counted(total, this.library.unit);
    const ranks = body && system && system !== "sparse"; // vectors
    found += !body ? `, ${order}` : ranks ? (body.like && !body.text ? " like this one, nearest first" : ", ranked best first") : matched === null ? "" : " found, best first";
    if (ranks && matched !== null) found += `; ${count(matched)} found by words`;
    if (body && total > DEEPEST) found += `; ${count(DEEPEST)} can be seen`;
    if (!seconds) return [found];
    const stages = Object.entries(seconds).filter(([stage]) => stage !== "total");
    const time = seconds.total ?? stages.reduce((sum, [, each]) => sum + each, 0);
    const parts = stages.map(([stage, each]) => `${stage} ${duration(each)}`).join(", ");
    return [`${found} · `, el("span", { title: parts }, duration(time))];
  }

  nothing() {
    const limited = this.limits.category || this.limits.where?.some((each) => each !== this.named());
    return el("div", { class: "empty" }, el("p", null, this.library.items ? "Nothing was found." : "There is nothing here yet."), el("p", { class: "muted" }, this.wayOn()), limited && el("div", { class: "actions" }, button("Remove all filters", this.free)));
  }

  /** The condition on names that typed words become where the model takes none. */
  named() {
    return this.library.texts === false ? this.limits.where?.find(({ field, op }) => field === "path" && op === "contains") : undefined;
  }

  wayOn() {
    if (this.named()) return "No file name and no folder contains these letters. To search by content, drop a photo.";
    if (this.limits.where || this.limits.category) return `Remove a filter or the ${this.library.folders === false ? "category" : "folder"}${this.body ? ", or say it in other words" : ""}.`;
    if (!this.body) return `This library has no ${this.library.unit ?? "pictures"} yet.`;
    if (this.body.system === "sparse" || this.body.by === "words") {
      const other = this.library.systems.includes("dense") ? `, or choose ${this.library.labels.dense}` : "";
      return `No ${this.library.unit === "products" ? "product" : "picture"} shares a word with this search. Say it in other words${other}.`;
    }
    return "Say it in other words.";
  }

  /** Say what went wrong, with a way on; `again` is what the button does. */
  fail(failure, again = () => this.again()) {
    this.failed = true;
    const other = async () => (await askToken(failure.message)) && again();
    if (failure.status === 0) addEventListener("online", () => this.failed && again(), { once: true });
    // Of an earlier question; where only the next page is missing, the reason stands at the end.
    if (!this.loading) this.clear();
    (this.hits.length ? this.list : this.count).after(this.message);
    this.message.replaceChildren(
      el(
        "div",
        { class: "error", role: "alert" },
        el("p", null, failure.message),
        failure.hint ? el("p", { class: "muted" }, failure.hint) : null,
        el("div", { class: "actions" }, button("Try again", again), [401, 403].includes(failure.status) ? button("Use another token", other) : null),
      ),
    );
  }

  clear() {
    this.hits = [];
    this.list.replaceChildren();
    this.count.replaceChildren();
    this.further.hidden = true;
  }

  again() {
    this.failed = false;
    this.message.replaceChildren();
    if (this.hits.length && this.next) return this.more();
    this.question = "";
    return this.show(this.library, this.body, this.limits);
  }

  busy(yes) {
    this.element.classList.toggle("busy", yes);
    this.list.setAttribute("aria-busy", String(yes));
  }

  skeletons() {
    this.message.replaceChildren();
    this.list.replaceChildren(...Array.from({ length: PAGE }, () => el("li", { class: "skeleton", "aria-hidden": "true" })));
  }

  clicked(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.open(link.dataset.item);
  }

  /** One stop of the tab key for the whole list; arrows go on from there. */
  rove(link) {
    if (!link) return;
    for (const each of this.list.querySelectorAll('a[tabindex="0"]')) each.tabIndex = -1;
    link.tabIndex = 0;
  }

  arrows(event) {
    const links = [...this.list.querySelectorAll("a")];
    const at = links.indexOf(event.target);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const beside = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: links.length - 1 };
    let to = links[beside[event.key]];
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const here = event.target.getBoundingClientRect();
      const middle = (here.left + here.right) / 2;
      const away = (box) => Math.abs((box.left + box.right) / 2 - middle);
      const sign = event.key === "ArrowDown" ? 1 : -1;
      let best = null;
      for (let n = at + sign; links[n]; n += sign) {
        const box = links[n].getBoundingClientRect();
        if (Math.abs(box.top - here.top) < 4) continue;
        if (best && Math.abs(box.top - best.top) > 4) break;
        if (!best || away(box) < best.away) [to, best] = [links[n], { top: box.top, away: away(box) }];
      }
    }
    if (!to) return;
    event.preventDefault();
    to.focus();
  }

  focus(item) {
    const links = [...this.list.querySelectorAll("a")];
    (links.find((each) => each.dataset.item === item) ?? links[0])?.focus();
  }

  renewAddresses() {
    for (const link of this.list.querySelectorAll("a")) link.href = this.address(link.dataset.item);
  }

  /** Mark what the other column has too, with its rank there; null: there is none. */
  mark(ranks) {
    for (const link of this.list.querySelectorAll("a")) {
      const rank = ranks?.get(link.dataset.item);
      link.querySelector(".mark")?.remove();
      link.classList.toggle("both", Boolean(rank));
      if (rank) link.append(el("span", { class: "mark" }, icon("compare"), el("span", { class: "hidden" }, "also in the other column, rank "), count(rank)));
    }
  }

  point(item) {
    for (const link of this.list.querySelectorAll("a")) link.classList.toggle("pointed", link.dataset.item === item);
  }
}
