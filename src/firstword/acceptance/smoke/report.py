"""The suite's results as a table, as JUnit XML and as JSON. Standard library only."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from firstword.acceptance.smoke.suite import FAILED, NOT_APPLICABLE, PASSED, Result

_MARKS = {PASSED: "ok  ", FAILED: "FAIL", NOT_APPLICABLE: "n/a "}


def line(result: Result) -> str:
    """Return one line of the table."""
    return f"{_MARKS[result.outcome]}  {result.model:34}  {result.check:32}  {result.seconds:6.1f} s  {result.detail}"


def summary(results: Sequence[Result]) -> str:
    """Return the last line: how many ended how."""
    counts = [f"{sum(r.outcome == outcome for r in results)} {outcome}" for outcome in _MARKS]
    return ", ".join(counts)


def write_junit(results: Sequence[Result], url: str, file: Path) -> None:
    """Write JUnit XML, as CI systems read it. What was not applicable is ``skipped``, with its reason."""
    suites = ElementTree.Element("testsuites", name="firstword smoke")
    for model in dict.fromkeys(result.model for result in results):
        own = [result for result in results if result.model == model]
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=model,
            hostname=url,
            tests=str(len(own)),
            failures=str(sum(r.outcome == FAILED for r in own)),
            skipped=str(sum(r.outcome == NOT_APPLICABLE for r in own)),
            time=f"{sum(r.seconds for r in own):.2f}",
        )
        for result in own:
            case = ElementTree.SubElement(
                suite, "testcase", classname=model, name=result.check, time=f"{result.seconds:.2f}"
            )
            if result.outcome == FAILED:
                ElementTree.SubElement(case, "failure", message=result.detail)
            elif result.outcome == NOT_APPLICABLE:
                ElementTree.SubElement(case, "skipped", message=result.detail)
            else:
                ElementTree.SubElement(case, "system-out").text = result.detail
    file.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suites).write(file, encoding="utf-8", xml_declaration=True)
