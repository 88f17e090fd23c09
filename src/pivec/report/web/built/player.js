// Made by `make page` from player_page.ts: 'sha256-+OQlbMZl8foi2QXmymiTFYbhldwODI1V2vtudINEEIo='
(()=>{document.documentElement.classList.add("ready");})();
