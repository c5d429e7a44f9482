// What the scripts share that look at pages in Chromium: node SCRIPT '{"packages", "chromium", "out", …}'. They take screenshots
// in two widths and both themes, and look for violations of accessibility, errors of scripts, violations of the policy, requests
// elsewhere, and content wider than the window. They print what they have found as JSON.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

export const options = JSON.parse(process.argv[2]);
export const problems = [];
export const figures = {};

const require = createRequire(join(options.packages, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

// A Visit is a page in a window.
export class Visit {
  constructor(page, name, origin) {
    Object.assign(this, { page, name, origin });
    page.on("console", (message) => {
      // Only the page named missing may not exist.
      if (message.type() === "error" && !(this.name.startsWith("missing") && message.text().includes("status of 404"))) this.problem(message.text());
    });
    page.on("pageerror", (error) => this.problem(error.message));
    page.on("dialog", (dialog) => { this.problem("a script of a name has run"); dialog.dismiss(); });
    page.on("request", (request) => { if (!request.url().startsWith(this.origin)) this.problem("request of " + request.url()); });
  }

  problem(text) {
    const size = this.page.viewportSize();
    problems.push(`${this.name}, ${size.width}${this.theme ? ", " + this.theme : ""}: ${text}`);
  }

  // look checks what is shown and takes a screenshot of it.
  async look() {
    const { page } = this;
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) this.problem(`the content is ${wide} pixels wider than the window`);
    await page.screenshot({ path: join(options.out, `${this.name}-${page.viewportSize().width}-${this.theme}.png`), fullPage: true });
    // The policy does not let axe in as a script, so it is evaluated as a debugger does.
    await page.evaluate(axe);
    const result = await page.evaluate((tags) => axe.run(document, { runOnly: tags }), rules);
    for (const violation of result.violations) {
      for (const node of violation.nodes) this.problem(`${violation.id}: ${violation.help}: ${node.html.slice(0, 200)}`);
    }
    if (result.passes.length < 5) this.problem("axe has checked nothing");
  }
}

// run runs checks in a browser: each of all in two widths and both themes, and once a wide window.
export async function run(origin, each, once) {
  const browser = await chromium.launch({ executablePath: options.chromium, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  try {
    for (const [width, height] of [[1280, 900], [375, 740]]) {
      for (const theme of ["light", "dark"]) {
        const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme });
        const visit = new Visit(await context.newPage(), "first", origin);
        visit.theme = theme;
        await each(visit);
        await context.close();
      }
    }
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    await once(new Visit(await context.newPage(), "by keyboard", origin));
    await context.close();
  } catch (error) {
    problems.push(String(error.stack || error));
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify({ problems, figures }));
}
