// Rules for the script of the report: no code from text, no markup from text, no loose ends.
const js = require("@eslint/js");

const markup = ["innerHTML", "outerHTML", "insertAdjacentHTML", "srcdoc"];
module.exports = [
  { ignores: ["**/built/**"] },
  {
    ...js.configs.recommended,
    // no-implied-eval looks for these
    languageOptions: { globals: { window: "readonly", globalThis: "readonly", setTimeout: "readonly", setInterval: "readonly" } },
    rules: {
      ...js.configs.recommended.rules,
      "no-undef": "off",  // tsc knows the names of browsers
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-restricted-properties": ["error", ...markup.map((property) => ({ property, message: "set textContent: names from files are text" }))],
      "no-restricted-globals": ["error", "name", "event", "status", "length"],
      "no-var": "error",
      "eqeqeq": "error",
      "prefer-const": "error",
      "no-unused-vars": "error",
    },
  },
];
