"""Builds the documentation site: collects the pages, runs the notebooks, runs Zensical and checks the result.

Pages link to each other, and to other files of the repository, as files: the same links work in a checkout.
Here they are rewritten to the pages of the site. A source file that is linked becomes a page of its own.

Usage: python docs/site/build.py FOLDER   (the site is written to FOLDER/html)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"

# Pages that lie outside docs/, and their places in the site.
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    **{
        f"bench/{path.parent.name}/{path.name}": f"bench/{path.parent.name}/{path.stem.lower()}.md"
        for path in sorted((ROOT / "bench").glob("*/*.md"))
    },
}
LINK = re.compile(r"(?<!!)(\[(?:[^\]\\]|\\.)*\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^(```.*?^```[^\n]*)", re.MULTILINE | re.DOTALL)


class Pages:
    """The pages of the site as they are collected: place in the repository to place in the site."""

    def __init__(self, folder: Path) -> None:
        """Starts with an empty folder of pages."""
        self.folder = folder
        self.places = {page: place for page, place in ELSEWHERE.items() if (ROOT / page).exists()}
        for path in sorted((ROOT / "docs").rglob("*")):
            if path.is_file() and SITE not in path.parents:
                self.places[path.relative_to(ROOT).as_posix()] = path.relative_to(ROOT / "docs").as_posix()
        for path in sorted((ROOT / "python" / "examples").glob("*.py")):
            self.places[path.relative_to(ROOT).as_posix()] = f"notebooks/{path.stem}.md"

    def collect(self) -> None:
        """Writes every page; linked source files are added as they are met."""
        done: set[str] = set()
        while waiting := [page for page in self.places if page not in done]:
            for page in waiting:
                done.add(page)
                place = self.folder / self.places[page]
                place.parent.mkdir(parents=True, exist_ok=True)
                if page == "README.md":
                    continue  # the site has its own first page
                if place.suffix != ".md":
                    shutil.copy(ROOT / page, place)
                elif page.startswith("python/examples/"):
                    place.write_text(self.rewritten(notebook(ROOT / page, place.parent), page))
                elif page.endswith(".md"):
                    place.write_text(self.rewritten((ROOT / page).read_text(), page))
                else:
                    language = {".rs": "rust", ".py": "python"}.get(Path(page).suffix, "text")
                    text = (ROOT / page).read_text()
                    place.write_text(f"# {page}\n\n```{language}\n{text}```\n")

    def rewritten(self, text: str, page: str) -> str:
        """A page with its links rewritten, and without the hidden lines of Rust examples."""
        parts = FENCE.split(text)
        for i, part in enumerate(parts):
            if part.startswith("```rust"):
                parts[i] = re.sub(r"^# .*\n", "", part, flags=re.MULTILINE)
            elif not part.startswith("```"):
                parts[i] = LINK.sub(
                    lambda link: link[1] + self.target(link[2], page) + link[3],
                    part,
                )
        return "".join(parts)

    def target(self, link: str, page: str) -> str:
        """Where a link of a page leads to in the site."""
        address = urlsplit(link)
        if address.scheme or not address.path:
            return link
        path = PurePosixPath(os.path.normpath(PurePosixPath(page).parent / unquote(address.path))).as_posix()
        if (ROOT / path).is_dir():
            path += "/README.md"
        if not (ROOT / path).is_file():
            sys.exit(f"{page}: the link {link} leads nowhere")
        if path not in self.places:
            self.places[path] = f"files/{path}.md"
        start = PurePosixPath(self.places[page]).parent
        found = os.path.relpath(self.places[path], start)
        return found + (f"#{address.fragment}" if address.fragment else "")


def notebook(path: Path, folder: Path) -> str:
    """Runs a notebook and returns it as Markdown; its pictures are written beside the page."""
    import jupytext
    import nbclient
    import nbconvert

    book = jupytext.read(path)
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(ROOT)}}).execute()
    exporter = nbconvert.MarkdownExporter()
    text, resources = exporter.from_notebook_node(book)
    for name, data in resources["outputs"].items():
        picture = f"{path.stem}-{name}"
        (folder / picture).write_bytes(data)
        text = text.replace(f"]({name})", f"]({picture})")
    title = re.search(r"^# (.*)", text, flags=re.MULTILINE)
    alternative = f"Figure of the notebook {title[1] if title else path.stem}"
    text = text.replace("![png](", f"![{alternative}](")
    return (
        f"{text}\n\n*This page is the notebook `python/examples/{path.name}`, run when the site is built.*\n"
    )


class Page(HTMLParser):
    """The links, anchors and titles of a page."""

    def __init__(self, text: str) -> None:
        """Reads the page."""
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.title = ""
        self.problems: list[str] = []
        self._in_title = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects a link, an anchor or a picture without alternative text."""
        own = dict(attrs)
        self._in_title = tag == "title" or (self._in_title and tag != "svg")
        if own.get("id"):
            self.anchors.add(str(own["id"]))
        if tag == "a" and own.get("href"):
            self.links.append(str(own["href"]))
        if tag in ("img", "script") and own.get("src"):
            self.links.append(str(own["src"]))
        if tag == "link" and own.get("href"):
            self.links.append(str(own["href"]))
        if tag == "img" and not own.get("alt"):
            self.problems.append(f"the picture {own.get('src')} has no alternative text")

    def handle_endtag(self, tag: str) -> None:
        """Ends the title."""
        if tag == "title":
            self._in_title = False

    def handle_data(self, data: str) -> None:
        """Collects the title."""
        if self._in_title:
            self.title += data


def check(site: Path) -> list[str]:
    """The problems of the finished site: broken links and anchors, missing titles and alternative texts."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    problems = []
    titles: dict[str, Path] = {}
    for path, page in pages.items():
        name = path.relative_to(site)
        problems += [f"{name}: {problem}" for problem in page.problems]
        if not page.title.strip():
            problems.append(f"{name}: no title")
        elif page.title in titles:
            problems.append(f"{name}: the same title as {titles[page.title]}: {page.title}")
        titles[page.title] = name
        for link in page.links:
            address = urlsplit(link)
            if address.scheme == "data":
                continue
            if address.scheme or address.netloc:
                if link.startswith("http") and any(link.endswith(end) for end in (".js", ".css", ".woff2")):
                    problems.append(f"{name}: loads {link} from elsewhere")
                continue
            if name.name == "404.html":
                continue
            to = (path.parent / unquote(address.path)).resolve() if address.path else path
            to = to / "index.html" if to.is_dir() else to
            if not to.exists():
                problems.append(f"{name}: {link} leads nowhere")
            elif address.fragment and to in pages and unquote(address.fragment) not in pages[to].anchors:
                problems.append(f"{name}: {link} names no heading")
    return problems


def main() -> None:
    """Builds the site."""
    folder = Path(sys.argv[1]).resolve()
    pages = folder / "pages"
    for old in (pages, folder / "html"):
        shutil.rmtree(old, ignore_errors=True)
    pages.mkdir(parents=True)
    shutil.copytree(SITE / "assets", pages / "assets")
    for file in ("mkdocs.yml", "doctests.py"):
        shutil.copy(SITE / file, folder)
    Pages(pages).collect()
    plain = os.environ | {"NO_COLOR": "1"}
    build = [Path(sys.executable).parent / "zensical", "build", "--clean", "--strict"]
    subprocess.run([*build, "--config-file", folder / "mkdocs.yml"], check=True, cwd=folder, env=plain)
    problems = check(folder / "html")
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(list((folder / 'html').rglob('*.html')))} pages in {folder / 'html'}")


if __name__ == "__main__":
    main()
