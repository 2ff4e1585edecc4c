// The form for a filter on metadata, made from the fields that the library names. (Fetched when it is first opened.)

import { button, el, option } from "./dom.js";
import { conditionText } from "./state.js";

const WORDS = {
  number: { ">=": "at least", "<=": "at most", "=": "is", "!=": "is not" },
  date: { ">=": "from", "<=": "until" },
  text: { "=": "is", "!=": "is not", contains: "contains" },
};

const FIRST = ["price", "brand", "category"]; // of a shop

/** Build the form anew for fields; `add(text)` gets a condition as the command line writes it. */
export function form(place, listed, add) {
  const fields = listed.some(({ name }) => name === FIRST[0]) ? [...listed].sort((one, other) => FIRST.includes(other.name) - FIRST.includes(one.name)) : listed;
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
  place.replaceChildren(field, op, value, el("button", { class: "tool primary" }, "Add"), button("Close", () => place.dispatchEvent(new Event("leave"))));
  place.onsubmit = (event) => {
    event.preventDefault();
    add(conditionText({ field: field.value, op: op.value, value: value.querySelector("input").value }));
  };
}
