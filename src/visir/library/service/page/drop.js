// Photos that are dropped, pasted or chosen.

const pictureOf = (transfer) => [...(transfer?.files ?? [])].find((file) => file.type.startsWith("image/") || !file.type);

/** Call `use` with every file that is dropped anywhere, pasted or chosen. `veil` is shown while one is dragged. */
export function listen(use, chooser, veil) {
  let inside = 0;
  const over = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => over(event) && (veil.hidden = !++inside));
  addEventListener("dragleave", (event) => over(event) && (veil.hidden = --inside <= 0));
  addEventListener("dragover", (event) => over(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!over(event)) return;
    event.preventDefault();
    inside = 0;
    veil.hidden = true;
    const file = pictureOf(event.dataTransfer) ?? event.dataTransfer.files[0];
    if (file) use(file);
  });
  addEventListener("paste", (event) => {
    const file = pictureOf(event.clipboardData);
    if (!file) return;
    event.preventDefault();
    use(file);
  });
  chooser.addEventListener("change", () => {
    if (chooser.files[0]) use(chooser.files[0]);
    chooser.value = "";
  });
}
