// Where the page begins: a one-time token is taken out of the address, the session is looked up, and the screen that the address
// names is drawn and followed.
import { effect, html, render, useEffect, useState } from "./lib.js";
import { Confirm, Progress } from "./actions.js";
import * as api from "./api.js";
import { Trends } from "./charts.js";
import * as live from "./live.js";
import { Config } from "./screens/config.js";
import { Brokers, Clients, Events, Services, Tasks, Workers } from "./screens/lists.js";
import { Login, Overview } from "./screens/overview.js";
import { Topology } from "./screens/topology.js";
import * as keys from "./shell.js";
import { Banner, Header, Help, Notice, Palette, Verdict } from "./shell.js";
import { SCREENS, forget, me, overview, route, say, sortOf, stream, topicOf, watch } from "./state.js";
import { STREAMED } from "./table.js";

const DRAWN = { overview: Overview, topology: Topology, brokers: Brokers, services: Services, workers: Workers, clients: Clients, tasks: Tasks, config: Config, events: Events, trends: Trends };

// Before anything else, so that neither history nor a screenshot keeps it.
function takeToken() {
  const found = /^#token=([\w.~+/=-]+)$/.exec(location.hash);
  if (!found) return "";
  history.replaceState(null, "", `${location.pathname}${location.search}#/overview`);
  route.value = { name: "overview", params: {} };
  return decodeURIComponent(found[1]);
}

const token = takeToken();

// A second address with a token, put into a tab that shows the page already.
addEventListener("hashchange", async () => {
  const another = takeToken();
  if (!another) return;
  await api.loginByToken(another).then(async () => { me.value = await api.me(); }).catch((error) => say(error.message));
});

function Page() {
  const [isKnown, setKnown] = useState(false);
  const [trouble, setTrouble] = useState("");
  const enter = async () => { me.value = await api.me(); };
  useEffect(() => {
    api.onLoggedOut.call = () => { live.end(); forget(); };
    begin().then(() => setKnown(true));
  }, []);
  async function begin() {
    try {
      if (token) await api.loginByToken(token);
    } catch (error) {
      setTrouble(error.cure ? `${error.message}: ${error.cure}` : error.message);
    }
    try {
      await enter();
    } catch (error) {
      if (error.code !== 401) setTrouble(error.message);
    }
  }
  if (!isKnown) return null;
  if (!me.value) return html`<${Login} enter=${enter} trouble=${trouble} />`;
  return html`<${Inside} />`;
}

function Inside() {
  const { name, params } = route.value;
  const topic = topicOf(name, params);
  const sort = params.sort ?? sortOf(topic, name);
  useEffect(() => { live.follow(topic, topic === "overview" ? {} : { filter: params.filter, sort, limit: STREAMED }); }, [topic, params.filter, sort]);
  const Screen = DRAWN[name];
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the screen</a>
    <${Header} /><${Banner} /><${Verdict} /><main id="main" tabindex="-1" class=${stream.value === "lost" ? "old" : ""} data-testid=${`screen-${name}`}><${Screen} key=${name} /></main>
    <${Progress} /><${Notice} /><${Confirm} /><${Palette} /><${Help} />`;
}

effect(() => {
  const { name } = route.value;
  document.documentElement.dataset.route = me.value ? name : "login";
  const title = SCREENS.find(([one]) => one === name)[2];
  const level = { bad: "✗ ", warn: "! " }[overview.value?.verdict?.level] || "";
  document.title = me.value ? `${level}${title} · ${me.value.network || "scale0"}` : "Scale0";
});

watch();
live.start();
keys.start();
render(html`<${Page} />`, document.getElementById("page"));
