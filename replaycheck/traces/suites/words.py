"""Words for the texts of the suites, by what they stand for in a template."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["WORDS"]


def _list(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(","))


WORDS: Mapping[str, tuple[str, ...]] = {
    "name": _list("Ada, Bruno, Clara, Dario, Edda, Femi, Greta, Hugo, Imke, Jonas, Kaia, Luca, Mira, Nils, Oda, Pavel, "
                  "Rosa, Sven, Tilda, Umar, Vera, Wim, Yara, Zeno"),
    "trade": _list("baker, ferryman, gardener, glazier, joiner, librarian, miller, nurse, potter, surveyor, tailor, "
                   "beekeeper, printer, roofer"),
    "place": _list("the harbour, the old mill, the north field, the reading room, the boat shed, the upper lock, "
                   "the market hall, the green bridge, the cellar, the weather mast, the orchard, the tram depot"),
    "thing": _list("a ladder, the ledger, a brass key, the kettle, two ropes, a map, the lamp, a crate of pears, "
                   "the spare wheel, a roll of cloth, the logbook, a box of nails, the scale, a blue tin"),
    "noun": _list("bread, clay, copper, flour, glass, honey, ice, linen, moss, paper, resin, salt, sand, wool, yeast"),
    "quality": _list("brittle, bright, cheap, clear, damp, even, heavy, late, loud, narrow, quiet, rough, slow, steady, "
                     "thin, warm"),
    "deed": _list("carry, clean, count, fold, lift, mark, measure, mend, move, open, paint, pour, sort, store, tie, weigh"),
    "past": _list("brought, counted, found, hid, left, lent, lost, mended, moved, sold, stored, took, weighed"),
    "day": _list("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"),
    "weather": _list("calm, fog until noon, light rain, wind from the east, hail, clear and cold, thunder at night"),
    "module": _list("billing, cache, calendar, catalog, export, gateway, inbox, ledger, media, orders, planner, queue, "
                    "reports, search, stock, users"),
    "file": _list("app.py, batch.py, cli.py, config.toml, db.py, dates.py, index.ts, loader.go, main.rs, pages.css, "
                  "parse.py, pool.c, retry.py, store.go, tests.py"),
    "func": _list("apply, build, check, collect, decode, fetch, flush, group, load, merge, parse, plan, render, retry, "
                  "split, store, trim, update"),
    "var": _list("batch, count, entry, index, item, key, limit, line, node, offset, page, row, size, total, value, width"),
    "type": _list("int, str, float, list[int], dict[str, int], bytes, bool"),
    "level": _list("INFO, WARN, DEBUG, ERROR"),
    "event": _list("connection closed, disk slow, job done, key rotated, lock taken, page missing, queue full, "
                   "retry planned, session opened, shard moved, token expired, worker idle"),
    "tool": _list("read_file, list_dir, run_tests, search, apply_patch, open_ticket, query_db, fetch_page, get_metrics, "
                  "restart_job, send_note, read_sensor"),
    "arg": _list("path, name, pattern, limit, since, id, line, text, unit"),
    "status": _list("ok, late, failed, skipped, open, closed, running"),
    "digit": _list("1, 2, 3, 4, 5, 6, 7, 8, 9"),
    "number": _list("11, 12, 14, 17, 19, 23, 26, 31, 38, 40, 47, 52, 64, 75, 88, 96, 120, 144, 180, 212, 256, 311, 404"),
    "colour": _list("amber, black, blue, brown, green, grey, ochre, red, violet, white"),
    "subject": _list("tides, sourdough, old clocks, bridges, bird calls, knots, soap, maps, canals, mosses, bells, "
                     "letters, lenses, looms"),
}  # fmt: skip
