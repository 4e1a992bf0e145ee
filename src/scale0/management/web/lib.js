// The libraries, in one place: everything else imports them from here.
import { Fragment, h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { Fragment, h, render };
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export { batch, computed, effect, signal } from "./vendor/signals.js";

// Templates become elements and text nodes; a name from the network is never read as markup.
export const html = htm.bind(h);

export const classes = (...names) => names.filter(Boolean).join(" ");
