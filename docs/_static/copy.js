/* A button on each block of code that copies it, without the prompts and the output of Python examples. */
function codeOf(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  const typed = lines.filter((line) => /^(>>>|\.\.\.)( |$)/.test(line));
  return typed.length && lines[0].startsWith(">>>") ? typed.map((line) => line.slice(4)).join("\n") : lines.join("\n");
}

document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll(".bd-article div:not(.highlight-text) > div.highlight")) {
    const code = block.querySelector("pre");
    if (!code || !navigator.clipboard) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(codeOf(code.textContent));
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.append(button);
  }
});
