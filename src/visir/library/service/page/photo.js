// A photo from the disk, the clipboard or a drag becomes a JPEG of at most 1024 pixels: what models look at is smaller
// still, and nothing else of the file (place, camera) leaves the device.

import { Failure } from "./api.js";

const SIDE = 1024;
let made = 0;

/** { key, data (base64), preview (a data: address), name }; Failure where the browser cannot read it as a picture. */
export async function prepare(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    throw new Failure(0, `${file.name || "That"} is not a picture that this browser can read.`, "Try a JPEG, PNG or WebP.");
  }
  const draw = (side, quality) => {
    const shrink = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(bitmap.width * shrink));
    canvas.height = Math.max(1, Math.round(bitmap.height * shrink));
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.fillStyle = "#fff"; // transparent parts lie over white, as they do for the encoders
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/jpeg", quality);
  };
  const data = draw(SIDE, 0.9).split(",")[1];
  const preview = draw(96, 0.8);
  bitmap.close();
  made += 1;
  return { key: made, data, preview, name: file.name || "pasted photo" };
}
