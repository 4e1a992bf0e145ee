// The HTTP API, as every other program uses it. An answer that is no success becomes a `Refusal` with code, text and cure.

export class Refusal extends Error {
  constructor(code, text, cure) {
    super(text);
    this.code = code;
    this.cure = cure || "";
  }
}

// Called when the session has ended; the page then shows the login.
export const onLoggedOut = { call: () => {} };

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(`api/v1/${path}`, { credentials: "same-origin", ...options });
  } catch {
    throw new Refusal(0, "the broker's page cannot be reached", "is the broker still running? scale0 network");
  }
  const body = response.status === 204 ? null : await response.json().catch(() => null);
  if (response.ok) return body;
  if (response.status === 401 && !path.startsWith("login")) onLoggedOut.call();
  throw new Refusal(response.status, body?.text || response.statusText, body?.cure);
}

const post = (path, body) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export const me = () => ask("me");
export const login = (user, password) => post("login", { user, password });
export const loginByToken = (token) => post("login/token", { token });
export const logout = () => post("logout", {});

export const overview = () => ask("overview");

export function listing(name, { filter = "", sort = "", limit = 200, offset = 0 } = {}) {
  return ask(`${name}?${new URLSearchParams(wanted({ filter, sort, limit, offset }))}`);
}

export const trends = (parameters) => ask(`trends?${new URLSearchParams(wanted(parameters))}`);
export const heatMap = (parameters) => `api/v1/heat.svg?${new URLSearchParams(wanted(parameters))}`;
export const why = (task) => ask(`why/${encodeURIComponent(task)}`);

// `id` comes back in the event that tells of the command.
export const command = (name, args, brokers, id) =>
  post(`commands/${name}`, { arguments: args, brokers, command_id: id });

export function wanted(parameters) {
  return Object.fromEntries(Object.entries(parameters).filter(([, value]) => value !== "" && value !== 0 && value !== undefined && value !== null));
}
