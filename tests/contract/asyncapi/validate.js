// node validate.js FILE: what the AsyncAPI parser finds, as JSON lines of {severity, message, path}; 0 is an error.
const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const load = createRequire(process.cwd() + "/"); // the packages lie outside the checkout
const { Parser } = load("@asyncapi/parser");

const file = process.argv[2];
new Parser().parse(readFileSync(file, "utf8"), { source: file }).then(({ document, diagnostics }) => {
  for (const { severity, message, path } of diagnostics) {
    console.log(JSON.stringify({ severity, message, path: path.join("/") }));
  }
  process.exitCode = document === undefined ? 1 : 0;
});
