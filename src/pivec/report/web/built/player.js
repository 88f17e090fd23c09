// Made by `make page` from player_page.ts: 'sha256-ZB892PNzn18/c01NupIKVvuCkz95H8nDBOU8v1nJHLA='
(()=>{document.documentElement.classList.add("ready");})();
