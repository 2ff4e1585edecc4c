// The tree of categories: every branch can be opened, every name asks for its subtree. (Fetched when it is first shown.)

import { get, path } from "./api.js";
import { count, el, icon } from "./dom.js";

/** Fill `place` with the tree of a library; `choose(path)` when a name is clicked, null for all. */
export async function categories(place, library, chosen, choose, signal) {
  if (place.dataset.of !== library.name) {
    place.replaceChildren(el("p", { class: "muted" }, "…"));
    const tree = await get(path(library.name, "categories"), signal);
    place.dataset.of = library.name;
    const list = branch(Array.isArray(tree) ? tree : tree.categories, choose);
    list.prepend(el("li", null, entry(null, "All", library.items, choose)));
    place.replaceChildren(list);
  }
  for (const link of place.querySelectorAll(".name")) {
    const here = link.dataset.path === (chosen ?? "");
    if (here) {
      link.setAttribute("aria-current", "true");
      for (let li = link.closest("li").parentElement.closest("li"); li; li = li.parentElement.closest("li")) unfold(li, true);
    } else link.removeAttribute("aria-current");
  }
}

function entry(path, name, items, choose) {
  return el(
    "button",
    { type: "button", class: "name", "data-path": path ?? "", onclick: () => choose(path) },
    el("span", null, name),
    el("span", { class: "muted" }, el("span", { class: "hidden" }, ", "), count(items)),
  );
}

function unfold(li, open) {
  const list = li.querySelector(":scope > ul");
  const fold = li.querySelector(":scope > .fold");
  if (!list || !fold) return;
  list.hidden = !open;
  fold.setAttribute("aria-expanded", String(open));
}

function branch(nodes, choose) {
  return el(
    "ul",
    null,
    nodes.map((node) => {
      const li = el("li");
      if (node.children?.length) {
        const list = branch(node.children, choose);
        list.hidden = true;
        const fold = el("button", { type: "button", class: "fold", "aria-expanded": "false", "aria-label": `Below ${node.name}` }, icon("next"));
        fold.addEventListener("click", () => unfold(li, list.hidden));
        li.append(fold, entry(node.path, node.name, node.items, choose), list);
      } else li.append(entry(node.path, node.name, node.items, choose));
      return li;
    }),
  );
}
