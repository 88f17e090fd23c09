// Made by `make page` from player_page.ts: 'sha256-eru/wNs4A/RX/tMAxn2JbpGJ/cjhvOoe7YITcYXlZPI='
(()=>{document.documentElement.classList.add("ready");})();
