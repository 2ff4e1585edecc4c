// Questions to the service: errors in words, one token prompt for all, pictures that need a token.

import { $ } from "./dom.js";

const KEY = "visir-token";
let token = null;
try {
  token = sessionStorage.getItem(KEY);
} catch {
  // The token then lives as long as the page.
}

/** What went wrong, in the words of the service: `message`, and `hint`, the next action. */
export class Failure extends Error {
  constructor(status, message, hint) {
    super(message);
    this.status = status;
    this.hint = hint ?? "";
  }
}

const offline = () =>
  navigator.onLine
    ? new Failure(0, "The service does not answer.", "Check that visir library serve is running, then try again.")
    : new Failure(0, "This device is offline.", "The search is repeated as soon as it is connected again.");

const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) : "");

async function refusal(response) {
  let error = null;
  try {
    ({ error } = await response.json());
  } catch {
    // Not from the service itself: a proxy, perhaps.
  }
  if (error?.message) return new Failure(response.status, sentence(error.message), sentence(error.hint));
  return new Failure(response.status, `The service answered with status ${response.status}.`, "Try again in a moment.");
}

let prompt = null;

/** Ask for a token; requests that meet 401 at the same time share one prompt. */
export function askToken(why) {
  prompt ??= new Promise((resolve) => {
    const dialog = $("token");
    $("token-why").textContent = why;
    $("token-value").value = "";
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      prompt = null;
      const given = dialog.returnValue === "use" && $("token-value").value.trim();
      $("token-value").value = "";
      if (given) {
        token = given;
        try {
          sessionStorage.setItem(KEY, token);
        } catch {
          // Kept by the page alone.
        }
      }
      resolve(Boolean(given));
    }, { once: true });
    dialog.showModal();
  });
  return prompt;
}

async function ask(path, options) {
  for (;;) {
    const sent = token;
    const headers = { ...options.headers };
    // Header values are Latin-1; a token is ASCII, so whatever is not cannot be one.
    if (sent && /^[\x21-\x7e]+$/.test(sent)) headers.Authorization = `Bearer ${sent}`;
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch (error) {
      throw error.name === "AbortError" ? error : offline();
    }
    if (response.ok) return response;
    const failure = await refusal(response);
    if (response.status !== 401) throw failure;
    if (sent === token && !(await askToken(failure.message))) throw failure;
    options.signal?.throwIfAborted();
  }
}

export async function get(path, signal) {
  return (await ask(path, { signal })).json();
}

/** Which libraries there are: theme.js has asked already. */
export async function librariesThere() {
  const early = window.early;
  window.early = null; // a response is read once; whoever tries again asks again
  const response = await early;
  return response?.ok ? response.json() : get("/v1/libraries");
}

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}

/** `/v1/libraries/{name}/…`, every part quoted. */
export const path = (library, ...parts) => ["/v1/libraries", ...[library, ...parts].map(encodeURIComponent)].join("/");

const lazily = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    lazily.unobserve(target);
    load(target);
  }
}, { rootMargin: "600px" });
const wanted = new WeakMap();

async function load(image) {
  const address = wanted.get(image);
  try {
    const url = URL.createObjectURL(await (await ask(address, {})).blob());
    image.addEventListener("load", () => URL.revokeObjectURL(url), { once: true });
    if (wanted.get(image) === address) image.src = url;
  } catch {
    image.dispatchEvent(new Event("error"));
  }
}

/** Give an <img> its source: by address, or, as <img> sends no token, fetched with it once the picture comes near. */
export function picture(image, address) {
  wanted.set(image, address);
  if (!token) image.src = address;
  else if (image.loading === "lazy") lazily.observe(image);
  else load(image);
  return image;
}
