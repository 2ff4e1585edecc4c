// Runs before the first paint: the colours that were chosen, room for the categories where they were left open, and the
// question which libraries there are, so that its answer travels while the modules do (api.js asks again with a token).
try {
  const theme = localStorage.getItem("visir-theme");
  if (theme) document.documentElement.dataset.theme = theme;
  if (localStorage.getItem("visir-categories")) document.documentElement.dataset.categories = "open";
} catch {
  // A browser that keeps nothing follows the system.
}
window.early = fetch("/v1/libraries").catch(() => null);
