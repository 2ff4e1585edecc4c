// The form for a filter on metadata, made from the fields that the library names. (Fetched when it is first opened.)

import { button, el, option } from "./dom.js";
import { conditionText } from "./state.js";

const WORDS = {
  number: { ">=": "at least", "<=": "at most", "=": "is", "!=": "is not" },
  date: { ">=": "from", "<=": "until" },
  text: { "=": "is", "!=": "is not", contains: "contains" },
};

// What people filter by comes first, then the source's own fields, those of most items first; sizes are last.
const FIRST = ["price", "taken", "keyword", "person", "country", "city", "category", "brand", "rating", "camera"];
const LAST = ["name", "path", "caption", "format", "width", "height", "bytes"];
const place = ({ name, items }) => (items === 0 ? 99 : FIRST.includes(name) ? FIRST.indexOf(name) : LAST.includes(name) ? 20 + LAST.indexOf(name) : 10);

/** Build the form anew for fields; `add(text)` gets a condition as the command line writes it. */
export function form(panel, listed, add) {
  const fields = [...listed].sort((one, other) => place(one) - place(other) || (other.items ?? 0) - (one.items ?? 0));
  const field = el("select", { "aria-label": "Field" }, fields.map(({ name }) => option(name, name)));
  const op = el("select", { "aria-label": "Comparison" });
  const value = el("span");
  const refresh = () => {
    const chosen = fields.find(({ name }) => name === field.value);
    op.replaceChildren(...Object.entries(WORDS[chosen.type] ?? WORDS.text).map(([sign, words]) => option(sign, words)));
    const few = chosen.values?.length;
    const types = { number: "number", date: "date" };
    const input = el("input", { type: types[chosen.type] ?? "text", step: "any", required: true, maxlength: "200", placeholder: "value", "aria-label": "Value", list: few ? "values" : null });
    value.replaceChildren(input, ...(few ? [el("datalist", { id: "values" }, chosen.values.map((each) => option(each, String(each))))] : []));
  };
  field.addEventListener("change", refresh);
  refresh();
  panel.replaceChildren(field, op, value, el("button", { class: "tool primary" }, "Add"), button("Close", () => panel.dispatchEvent(new Event("leave"))));
  panel.onsubmit = (event) => {
    event.preventDefault();
    add(conditionText({ field: field.value, op: op.value, value: value.querySelector("input").value }));
  };
}
