// Looks at pages of findings: {"origin", "pages": addresses by name}; that of findings has some.
import { figures, options, run } from "./lib.mjs";

async function everywhere(visit) {
  for (const [name, address] of Object.entries(options.pages)) {
    visit.name = name;
    await visit.page.goto(address);
    await visit.look();
  }
}

// filter filters by keyboard, and opens the link again.
async function filter(visit) {
  const { page } = visit;
  await page.goto(options.pages.findings);
  const shown = () => page.locator(".finding:visible").count();
  figures.all = String(await shown());
  await page.keyboard.press("/");
  await page.keyboard.type("maxqps");
  figures.word = String(await shown());
  await page.fill("[name=q]", "");
  await page.uncheck("[name=severity][value=warning]");
  figures.errors = String(await shown());
  figures.status = await page.locator("#shown").innerText();
  await page.reload();
  figures.link = String(await shown());
}

await run(options.origin, everywhere, filter);
