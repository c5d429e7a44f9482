// Looks at the page of a cloud: {"endpoint", "token", "pages": addresses by name, "search": the name of a load balancer with traffic}.
import { figures, options, run } from "./lib.mjs";

async function everywhere(visit) {
  const { page } = visit;
  visit.name = "login";
  await page.goto(options.endpoint + "/ui/load-balancers?q=shop");
  await page.waitForURL("**/ui/login?next=*");
  await visit.look();
  await page.fill("#token", options.token);
  await page.keyboard.press("Enter");
  await page.waitForURL("**/ui/load-balancers?q=shop");
  for (const [name, path] of Object.entries(options.pages)) {
    visit.name = name;
    await page.goto(options.endpoint + path);
    for (const plot of await page.locator(".plot").all()) await plot.locator("canvas").waitFor();
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
    await visit.look();
  }
}

// byKeyboard goes from the login to a load balancer, and waits until its figures move.
async function byKeyboard(visit) {
  const { page } = visit;
  await page.goto(options.endpoint + "/ui/");
  await page.keyboard.type(options.token);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".plot canvas");
  await page.keyboard.press("Tab");
  if ((await page.evaluate(() => document.activeElement.textContent)) !== "Skip to content") visit.problem("the first stop is not the link to the content");
  await page.keyboard.press("/");
  await page.keyboard.type(options.search);
  await page.keyboard.press("Enter");
  await page.waitForURL("**/ui/search?q=*");
  await page.focus("main .hits a");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".plot canvas");
  const accepted = () => page.locator("#listeners td.num").first().innerText();
  const before = await accepted();
  await page.waitForFunction((old) => document.querySelector("#listeners td.num").textContent !== old, before, { timeout: 30000 })
    .catch(() => visit.problem("the counters do not move"));
  await page.focus("[data-plot=requests]");
  await page.waitForFunction(() => /\d/.test(document.querySelector("[data-plot=requests] .u-legend").innerText), undefined, { timeout: 30000 })
    .catch(() => visit.problem("the plot does not move"));
  await page.keyboard.press("ArrowLeft");
  figures.legend = await page.locator("[data-plot=requests] .u-legend").innerText();
  // The focus stays where it is although the content is new.
  await page.focus("#edges tbody a");
  const edge = await page.evaluate(() => document.activeElement.href);
  await page.evaluate(() => { document.querySelector("#edges td").textContent = "old"; });
  await page.waitForFunction(() => document.querySelector("#edges td").textContent !== "old", undefined, { timeout: 15000 })
    .catch(() => visit.problem("the content is not refreshed"));
  if ((await page.evaluate(() => document.activeElement.href)) !== edge) visit.problem("the focus is lost when the content is refreshed");
  // What is paused does not move.
  await page.click("#pause");
  await page.evaluate(() => { document.querySelector("#edges td").textContent = "old"; });
  await page.waitForTimeout(6000);
  if ((await page.locator("#edges td").first().innerText()) !== "old") visit.problem("a page that is paused is refreshed");
  await page.click("text=Log out");
  await page.waitForURL("**/ui/login");
}

await run(options.endpoint, everywhere, byKeyboard);
