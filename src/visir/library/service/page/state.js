// What is asked is in the address, so that back works and a link can be shared. A photo cannot be in an address; the
// page keeps it in memory under a key that travels in the history entry.

const OPERATOR = /^(.+?) (=|!=|<=|>=|<|>|contains|in) (.*)$/s;

/** "width >= 800", as `visir search --where` takes it. */
export function conditionText({ field, op, value }) {
  return `${field} ${op} ${Array.isArray(value) ? value.join(",") : value}`;
}

function condition(text, types) {
  const match = OPERATOR.exec(text);
  if (!match) return null;
  const [, field, op, value] = match;
  const one = (part) => (types[field] === "number" && part.trim() !== "" && Number.isFinite(Number(part)) ? Number(part) : part);
  return { field, op, value: op === "in" ? value.split(",").map((part) => one(part.trim())) : one(value) };
}

/** The state of an address. Unknown parts are passed over: an old link still opens. */
export function read(address) {
  const given = new URLSearchParams(address);
  const textWeight = Number(given.get("text_weight") ?? 50);
  return {
    text: given.get("q") ?? "",
    like: given.get("like"),
    photo: null,
    lostPhoto: given.has("photo"),
    textWeight: textWeight >= 0 && textWeight <= 100 ? textWeight : 50,
    library: given.get("library"),
    system: given.get("system"),
    category: given.get("category"),
    where: given.getAll("where"),
    plain: given.has("plain"), // prices in the words are words
    other: given.has("compare") ? { library: given.get("library2"), system: given.get("compare") } : null,
    open: given.get("open"),
    side: given.get("side") === "2" ? 1 : 0,
  };
}

export function write(state) {
  const given = new URLSearchParams();
  const set = (name, value) => value && given.set(name, value);
  set("q", state.text.trim());
  set("like", state.like);
  set("photo", state.photo || state.lostPhoto ? "1" : "");
  if (state.textWeight !== 50) given.set("text_weight", state.textWeight);
  set("library", state.library);
  set("system", state.system);
  set("category", state.category);
  for (const each of state.where) given.append("where", each);
  if (state.plain) given.set("plain", "1");
  if (state.other) {
    given.set("compare", state.other.system ?? "");
    set("library2", state.other.library);
  }
  set("open", state.open);
  if (state.open && state.side) given.set("side", "2");
  const text = given.toString();
  return text ? `?${text}` : "/";
}

/** What a text can be searched by: "both", "words", systems of vectors; the first by default. */
export function ways(library) {
  if (!library.ways?.includes("words")) return library.systems;
  return library.ways.flatMap((way) => (way === "vectors" ? library.systems : [way]));
}

/** What the library is asked: the body of a search, or null where there is nothing to search for. */
export function query(state, library, way) {
  const words = library.texts !== false && state.text.trim();
  if (!words && !state.like && !state.photo) return null;
  const byWords = way === "words" || way === "both"; // a picture is for vectors alone
  const body = byWords ? (state.like || state.photo ? {} : { by: way }) : { system: way };
  if (words) body.text = words;
  if (words && state.plain) body.read_prices = false;
  if (state.like) body.like = state.like;
  if (state.photo) body.image = { data: state.photo.data };
  if (body.text && (body.like || body.image)) body.text_weight = state.textWeight / 100;
  return { ...body, ...limits(state, library) };
}

/** What the pictures must satisfy: a category, conditions, both or nothing. */
export function limits(state, library) {
  const types = Object.fromEntries((library.fields ?? []).map((field) => [field.name, field.type]));
  const where = state.where.map((text) => condition(text, types)).filter(Boolean);
  // A model without words: what is typed is looked for in the paths.
  if (library.texts === false && state.text.trim()) where.push({ field: "path", op: "contains", value: state.text.trim() });
  return { ...(state.category ? { category: state.category } : {}), ...(where.length ? { where } : {}) };
}
