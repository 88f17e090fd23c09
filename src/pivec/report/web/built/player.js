// Made by `make page` from player_page.ts: 'sha256-JfdkJ3snZSTrUD7zA0UPMFkMtZrxWPq3aizsrOarcqA='
(()=>{document.documentElement.classList.add("ready");})();
