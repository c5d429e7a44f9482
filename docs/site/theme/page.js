// Makes the code blocks of a page copyable. Of blocks with commands and their output, only the commands are copied.
"use strict";
(() => {
  const prompt = "$ ";

  // Marks what is output in a block with commands, and returns the commands; null for other blocks.
  function commands(code) {
    const lines = code.textContent.replace(/\n$/, "").split("\n");
    if (!lines.some((line) => line.startsWith(prompt))) return null;
    const found = [];
    let continued = false;
    code.replaceChildren(...lines.flatMap((line) => {
      const isCommand = continued || line.startsWith(prompt);
      continued = isCommand && line.endsWith("\\");
      if (isCommand) found.push(line.startsWith(prompt) ? line.slice(prompt.length) : line);
      const element = document.createElement("span");
      element.className = isCommand ? "command" : "output";
      element.textContent = line + "\n";
      return element;
    }));
    return found.join("\n");
  }

  for (const pre of document.querySelectorAll("article pre")) {
    const code = pre.querySelector("code");
    const text = commands(code) ?? code.textContent.trimEnd();
    if (!navigator.clipboard) continue; // only on HTTPS and localhost
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    pre.prepend(button); // the text flows around it
  }
})();
