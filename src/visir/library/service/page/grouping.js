/** The fields of pictures that group them: those of which some have a value. */
export function grouping(library) {
  const there = (library.fields ?? []).filter(({ items }) => items).map(({ name }) => name);
  return ["keyword", "person", "country", "city", "place", "rating"].filter((name) => there.includes(name));
}
