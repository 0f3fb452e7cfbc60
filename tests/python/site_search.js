// SPDX-License-Identifier: MIT
// Asks the search of the built site, with the theme's own code: node site_search.js SITE QUERY... prints a JSON object of
// query: pages, the best first.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [site, ...queries] = process.argv.slice(2);
const workers = path.join(site, "assets/javascripts/workers");
const script = fs.readdirSync(workers).find((name) => /^search\..*\.js$/.test(name));

let answer, receive;
const worker = {
  console,
  postMessage: (message) => answer(message),
  addEventListener: (_, handler) => { receive = handler; },
};
worker.self = worker;
vm.runInNewContext(fs.readFileSync(path.join(workers, script), "utf8"), worker);

function ask(message) {
  return new Promise((resolve) => {
    answer = resolve;
    receive({ data: message });
  });
}

(async () => {
  const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"));
  await ask({ type: 0, data: { config: index.config, docs: index.docs, options: { suggest: true } } });
  const found = {};
  for (const query of queries) {
    const { data } = await ask({ type: 2, data: query });
    found[query] = data.items.map((entries) => entries[0].location.split("#")[0]);
    if (process.env.SEARCH_SECTIONS) found[query] = data.items.map((entries) => entries[0].location);
  }
  console.log(JSON.stringify(found));
})();
