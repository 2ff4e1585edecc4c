// Runs before the first paint: the colours that were chosen, and room for the categories where they were left open.
try {
  const theme = localStorage.getItem("visir-theme");
  if (theme) document.documentElement.dataset.theme = theme;
  if (localStorage.getItem("visir-categories")) document.documentElement.dataset.categories = "open";
} catch {
  // A browser that keeps nothing follows the system.
}
