// Elements and texts. Whatever comes from the service goes through `el` as a text node or an attribute, never as HTML.

export const $ = (id) => document.getElementById(id);

/** An element: `on…` are listeners, `style` is an object of custom properties, strings among the children become text. */
export function el(name, properties, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, text] of Object.entries(value)) node.style.setProperty(name, text);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export function button(label, action, properties, ...children) {
  return el("button", { type: "button", class: "tool", onclick: action, ...properties }, ...(children.length ? children : [label]));
}

/** A small thing that was chosen and can be taken away; `what` says what it is to those who only hear it. */
export function chip(text, remove, what, ...before) {
  const away = { type: "button", class: "quiet", "aria-label": `Remove the ${what} ${text}`, title: "Remove", onclick: remove };
  return el("span", { class: "chip" }, before, el("span", { class: "chip-text", title: text }, text), el("button", away, icon("close")));
}

export const option = (value, label, selected) => el("option", { value, selected }, label);

/** 1000 → "1,000"; by hand, because the browser's own formatter takes milliseconds to be made. */
export const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

/** "1 picture", "1,000 products". */
export const counted = (n, unit = "pictures") => `${count(n)} ${n === 1 ? unit.slice(0, -1) : unit}`;

/** Three significant digits: weights and scores. */
export const weight = (n) => (typeof n === "number" ? String(Number(n.toPrecision(3))) : "–");

export function duration(seconds) {
  if (seconds >= 1) return `${seconds.toFixed(1)} s`;
  return seconds >= 0.001 ? `${Math.round(seconds * 1000)} ms` : "under 1 ms";
}

export function size(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

export function remember(key, value) {
  try {
    if (value) localStorage.setItem(key, value);
    else localStorage.removeItem(key);
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
}

/** Add a style sheet; done when it holds, or cannot. */
export function style(name) {
  return new Promise((done) => document.head.append(el("link", { rel: "stylesheet", href: `/static/${name}`, onload: done, onerror: done })));
}

/** Show a line above the results; an empty one hides it. */
export function showNote(note, failure = false) {
  $("note").textContent = note;
  $("note").hidden = !note;
  $("note").classList.toggle("error", failure);
  if (failure) $("note").setAttribute("role", "alert");
  else $("note").removeAttribute("role");
}
