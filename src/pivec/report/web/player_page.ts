// Starts the players of clips in pages without the workbench.
document.documentElement.classList.add("ready");
