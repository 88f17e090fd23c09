// Made by `make page` from player_page.ts: 'sha256-sCeYF+sa0Fh4Qcs4cxpkhlDnonV8uX9ZGRPWead9PV4='
(()=>{document.documentElement.classList.add("ready");})();
