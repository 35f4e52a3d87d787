// A button on each code block that copies its text, or the commands of a console's transcript.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    const text = block.querySelector("pre").textContent;
    const commands = text.split("\n").filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    const button = Object.assign(document.createElement("button"), { className: "copy", textContent: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(commands.length ? commands.join("\n") : text);
      button.textContent = "Copied";
    });
    block.append(button);
  }
});
