// Made by `make page` from player_page.ts: 'sha256-AuAG2xmTRUIWFYhYz8zkejnMZkWl1Z+8uJaCROiN3hc='
(()=>{document.documentElement.classList.add("ready");})();
