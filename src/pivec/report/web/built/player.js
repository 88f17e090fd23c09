// Made by `make page` from player_page.ts: 'sha256-G792QfLRrxWwmHa5wvzHLCgF903xI/eMRyl/uJQy/S4='
(()=>{document.documentElement.classList.add("ready");})();
