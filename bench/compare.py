"""Compares cfq with other tools on the same models, people and constraints; writes the tables of docs/comparison.md.

    make build && python3.11 bench/compare.py --shared DIR [STEP...]

DIR has data/ and models/ as docs/comparison.md describes them. The steps, all without any: `install` makes a virtual
environment for each tool of peers.toml, `quantize` has each quantizer write its files, `recourse` has each recourse
tool answer the same refused people, `tables` writes the page. cfq measures all files and judges all points. What a step
has measured is kept in build/compare/STEP.json. Needs Python 3.11, without packages, and Linux.
"""

import argparse
import csv
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CFQ = ROOT / "bin" / "cfq"
OUT = ROOT / "build" / "compare"
PAGE = ROOT / "docs" / "comparison.md"
MINUTES = 15  # a tool that takes longer to install or to answer is given up

# Data set: title, training rows, test rows, number of networks. Without test rows, split.json names them.
DATA = {
    "adult": ("Adult", "adult.data.gz", "adult.test.gz", 5),
    "german": ("German", "german.data", None, 1),
    "compas": ("COMPAS", "compas-scores-two-years.csv.gz", None, 1),
    "bank": ("Bank", "bank-full.csv.gz", None, 1),
    "default": ("Default", "UCI_Credit_Card.csv.gz", None, 1),
}
CALIBRATION, EVALUATED, REFUSED = 4096, 500, 200  # people at most: to calibrate on, to measure files on, to help

# Label, tool, and the form of other_tools.py or the flags of cfq quantize.
QUANTIZERS = [
    ("ORT static, per tensor", "onnxruntime", "ort-qdq"),
    ("ORT static, per channel", "onnxruntime", "ort-qdq-per-channel"),
    ("ORT static, 7 bits (`reduce_range`)", "onnxruntime", "ort-qdq-reduced"),
    ("ORT dynamic", "onnxruntime", "ort-dynamic"),
    ("ORT MatMulNBits 4", "onnxruntime", "ort-nbits-4"),
    ("NNCF", "nncf", "nncf-int8"),
    ("AIMET W8A8", "aimet", "aimet-w8a8"),
    ("AIMET W4A8", "aimet", "aimet-w4a8"),
    ("onnx-neural-compressor", "onnx-neural-compressor", "onnx-neural-compressor"),
    ("neural-compressor", "neural-compressor", "neural-compressor"),
    ("**cfq**, 8 bits", "cfq", ["--budget", "8"]),
    ("**cfq**, 4 bits", "cfq", ["--budget", "4"]),
    ("**cfq**, 8 bits, `write.compute=integer`", "cfq", ["--budget", "8", "--set", "write.compute=integer"]),
    ("**cfq**, 4 bits, `write.compute=integer`", "cfq", ["--budget", "4", "--set", "write.compute=integer"]),
]

# Label, tool, the adapter's method or the flags of cfq recourse.
RECOURSE = {
    ("adult", "mlp2-s0"): ["dice-random", "dice-genetic", "wachter", "spheres", "cfq", "cfq-margin"],
    ("german", "mlp2-s0"): ["dice-random", "dice-genetic", "wachter", "spheres", "cfq", "cfq-margin"],
    ("compas", "mlp2-s0"): ["dice-random", "dice-genetic", "wachter", "spheres", "reachml", "cfq", "cfq-margin",
                              "cfq-exact"],
    ("adult", "logreg-s0"): ["actionable", "cfq", "cfq-exact"],
    ("german", "logreg-s0"): ["actionable", "cfq", "cfq-exact"],
}
SOLVERS = {
    "dice-random": ("DiCE, random", "dice", "recourse_dice.py", ["random"]),
    "dice-genetic": ("DiCE, genetic", "dice", "recourse_dice.py", ["genetic"]),
    "wachter": ("Wachter (ReLax)", "relax", "recourse_relax.py", ["wachter"]),
    "spheres": ("growing spheres (ReLax)", "relax", "recourse_relax.py", ["spheres"]),
    "actionable": ("actionable-recourse", "actionable-recourse", "recourse_actionable.py", []),
    "reachml": ("reachml", "reachml", "recourse_reachml.py", []),
    "cfq": ("**cfq**", "cfq", None, []),
    "cfq-margin": ("**cfq** `--margin 0.1`", "cfq", None, ["--margin", "0.1"]),
    "cfq-exact": ("**cfq** `--exact`", "cfq", None, ["--exact"]),
}


class Failed(Exception):
    """What a tool said when it did not do its work."""


def run(*command, minutes=MINUTES):
    """Runs a command and returns its stdout with what it took: processor seconds, seconds and peak memory in MB."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(["timeout", f"{minutes}m", *map(str, command)], stdout=out, stderr=err, cwd=ROOT,
                                 preexec_fn=lambda: os.nice(10))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said, errors = (f.seek(0) or f.read().decode(errors="replace") for f in (out, err))
    if child.returncode == 124:
        raise Failed(f"it was not done after {minutes} minutes")
    if child.returncode:
        raise Failed(reason(errors))
    return said, {"processor": usage.ru_utime + usage.ru_stime, "seconds": time.monotonic() - begun,
                  "memory": usage.ru_maxrss / 1024}


def reason(text):
    """The line of an error output that says most: the last one that names an error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "rror" in line.split(" ")[0] or "ERROR" in line]
    return (named or lines or ["no reason given"])[-1][:200]


def cfq(*args):
    return json.loads(run(CFQ, *args, "--json", "-q")[0])


def size(path):
    """Bytes on disk of a folder."""
    return int(subprocess.run(["du", "-sB1", path], capture_output=True, text=True, check=True).stdout.split()[0])


def install(o, results):
    """Installs each tool into a fresh environment."""
    for name, peer in peers().items():
        if o.only and name not in o.only:
            continue
        folder = o.environments / name
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "venv", folder)
        empty = size(folder)
        found = {"title": peer["title"], "packages": peer["packages"]}
        try:
            _, took = run(folder / "bin" / "pip", "install", "--no-cache-dir", "--no-input", *peer["packages"])
            listed = run(folder / "bin" / "pip", "list", "--format=json")[0]
            found |= took | {"bytes": size(folder) - empty, "packages_installed": len(json.loads(listed))}
        except Failed as e:
            found["failed"] = f"does not install: {e}"
        results[name] = found
        save("install", results, name)
    doctor = cfq("doctor")
    results["cfq"] = {
        "title": "**cfq**, program and ONNX Runtime", "doctor": doctor,
        "bytes": CFQ.stat().st_size + Path(doctor["library"]["path"]).resolve().stat().st_size,
        "machine": {"processor": processor(), "cores": os.cpu_count(), "platform": platform.platform(terse=True),
                    "python": platform.python_version()}}
    save("install", results)


def processor():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.processor())


class Data:
    """A data set: its files, and what the tools get of it in a folder."""

    def __init__(self, o, name):
        self.name = name
        self.title, train, test, self.networks = DATA[name]
        self.task = ROOT / "examples" / "tasks" / f"{name}.yaml"
        self.models = o.shared / "models" / name
        self.train, self.test = (o.shared / "data" / name / f for f in (train, test or train))
        split = self.models / "split.json"
        self.train_rows, self.test_rows = ([], []) if test else (["--rows", f"!{split}"], ["--rows", split])
        self.folder = OUT / name
        self.folder.mkdir(parents=True, exist_ok=True)

    def model(self, name):
        return self.models / f"{name}.onnx"

    def people(self, model, file, rows):
        """Row, margin and model inputs of everybody, from the records of an evaluation of the model by itself."""
        records = self.folder / "records.csv"
        run(CFQ, "eval", model, model, "-d", file, "-t", self.task, *rows, "--sample", "1", "--margins", "0",
            "--noise", "0", "--records", records, "--overwrite", "-q")
        csv.field_size_limit(1 << 24)
        with open(records, newline="") as f:
            for r in csv.DictReader(f):
                if not r["inputs"]:  # the number of rows that --rows leaves out
                    continue
                dim, *parts = r["inputs"].split(" ")
                x = ["0"] * int(dim)
                for part in parts:
                    at, value = part.split(":")
                    x[int(at)] = value
                yield int(r["row"]), float(r["margin_full"]), x

    def prepare(self):
        """Writes the calibration rows, their numbers, and the task."""
        everybody = list(self.people(self.model("mlp2-s0"), self.train, self.train_rows))
        n = min(len(everybody), CALIBRATION)
        chosen = [everybody[k * len(everybody) // n] for k in range(n)]
        self.write("train", [x for _, _, x in chosen])
        (self.folder / "calibration.json").write_text(json.dumps([row for row, _, _ in chosen]))
        (self.folder / "task.json").write_text(run(CFQ, "task", "show", self.task, "--json")[0])

    def refused(self, model):
        """Writes a seeded sample of the people whom a model refuses."""
        everybody = self.people(self.model(model), self.test, self.test_rows)
        refused = [(row, x) for row, margin, x in everybody if margin <= 0]
        chosen = sorted(random.Random(1).sample(refused, min(REFUSED, len(refused))))
        self.write("people", [[row, *x] for row, x in chosen])
        (self.folder / "refused.json").write_text(json.dumps([row for row, _ in chosen]))
        return len(chosen)

    def write(self, name, rows):
        with open(self.folder / f"{name}.csv", "w", newline="") as f:
            csv.writer(f).writerows(rows)

    def quantize(self, o, model, tool, form, to):
        """Has a tool write a file for a model, and returns what it took."""
        if tool == "cfq":
            return run(CFQ, "quantize", self.model(model), "-d", self.train, "-t", self.task, "--rows",
                       self.folder / "calibration.json", "-o", to, *form, "--allow-larger", "--force",
                       "--overwrite", "-q")[1]
        _, took = run(o.environments / tool / "bin" / "python", ROOT / "bench" / "other_tools.py", "--write",
                      self.model(model), self.folder / "train.csv", to.parent, form)
        (to.parent / f"{form}.onnx").rename(to)
        return took

    def measure(self, model, file):
        """What cfq says of a file, with the time of an evaluation against that of the original."""
        e = cfq("eval", self.model(model), file, "-d", self.test, "-t", self.task, *self.test_rows, "--sample",
                EVALUATED, "--margins", "0.1", "--noise", "0", "--latency")
        r = e["result"]
        at, times = r["margins"][0], r["timing"]
        accuracy = r["decisions"]["accuracy_quant"]["value"] - r["decisions"]["accuracy_full"]["value"]
        latency = {n: t["quant"]["value"] / t["full"]["value"] for n, t in times.items() if n.startswith("batch")}
        return {"bytes": file.stat().st_size, "vd": at["vd"]["value"], "rvd": at["rvd"]["value"],
                "people": at["vd"]["den"], "rms": at["margin_error"]["rms"]["value"], "accuracy": accuracy,
                "latency": latency, "runtime": e["runtime"], "warnings": r["warnings"]}


def quantize(o, results):
    """Measures the files of all quantizers: first one network of each data set, then the others."""
    installed = load("install")
    for k in range(max(networks for *_, networks in DATA.values())):
        for name in DATA:
            d = Data(o, name)
            if k >= d.networks:
                continue
            if k == 0:
                d.prepare()
            for label, tool, form in QUANTIZERS:
                if o.only and tool not in o.only:
                    continue
                model = f"mlp2-s{k}"
                to = d.folder / f"{model}-{'cfq' + ''.join(form) if tool == 'cfq' else form}.onnx"
                try:
                    if failed := installed.get(tool, {}).get("failed"):
                        raise Failed(failed)
                    found = d.quantize(o, model, tool, form, to) | d.measure(model, to)
                except Failed as e:
                    found = {"failed": str(e)}
                results.setdefault(label, {})[f"{name}/{model}"] = found
                save("quantize", results, f"{name}/{model} {label}")


def recourse(o, results):
    """Has all tools help the same refused people, and judges their answers."""
    installed = load("install")
    for (name, model), solvers in RECOURSE.items():
        d = Data(o, name)
        d.prepare()
        people, small = d.refused(model), d.folder / f"{model}-4bit.onnx"
        d.quantize(o, model, "cfq", ["--budget", "4"], small)
        for solver in solvers:
            label, tool, adapter, args = SOLVERS[solver]
            if o.only and tool not in o.only:
                continue
            points = d.folder / f"{model}-{solver}.csv"
            points.unlink(missing_ok=True)
            try:
                if failed := installed.get(tool, {}).get("failed"):
                    raise Failed(failed)
                if adapter:
                    took = run(o.environments / tool / "bin" / "python", ROOT / "bench" / adapter, d.folder,
                               d.model(model), points, *args)[1]
                else:
                    took = run(CFQ, "recourse", d.model(model), "-d", d.test, "-t", d.task, "--rows",
                               d.folder / "refused.json", "-o", points, "-q", *args)[1]
                found = took | {"label": label, "people": people, "answers": judge(d, model, small, points)}
            except Failed as e:
                found = {"label": label, "people": people, "failed": str(e)}
            results.setdefault(f"{name}/{model}", {})[solver] = found
            save("recourse", results, f"{name}/{model} {label}")


def judge(d, model, small, points):
    """What cfq says of each point: cost, margin, broken constraints, and the margin of the 4-bit file."""
    records = d.folder / "judged.csv"
    run(CFQ, "eval", d.model(model), small, "-d", d.test, "-t", d.task, "--rows", d.folder / "refused.json",
        "--promises", points, "--margins", "0", "--noise", "0", "--records", records, "--overwrite", "-q")
    with open(records, newline="") as f:
        return {r["row"]: {"cost": float(r["issued_cost"]), "margin": float(r["issued_own"]),
                           "quantized": float(r["issued_other"]), "violation": r["issued_violation"]}
                for r in csv.DictReader(f) if r["issued_status"] == "found"}


def load(step):
    """What a step has measured."""
    file = OUT / f"{step}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def save(step, results, done=""):
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{step}.json").write_text(json.dumps(results, indent=1))
    if done:
        print(done, flush=True)


def percent(x):
    return f"{100 * x:.1f} %"


NOT_RUN = "not measured: this run did not reach it"


def peers():
    """The tools to install: title and packages of each."""
    with open(ROOT / "bench" / "peers.toml", "rb") as f:
        return tomllib.load(f)


def install_table(results):
    yield "| tool | installed | packages | seconds | of the processor |"
    yield "|---|---:|---:|---:|---:|"
    if "cfq" in results:
        r = results["cfq"]
        yield f"| {r['title']} | {r['bytes'] / 1e6:.0f} MB | 0 | not measured: built here | |"
    for name, peer in peers().items():
        r = results.get(name, {"failed": NOT_RUN})
        if "failed" in r:
            yield f"| {peer['title']} | {cell(r['failed'])} | | | |"
            continue
        yield (f"| {peer['title']} | {r['bytes'] / 1e6:,.0f} MB | {r['packages_installed'] - 2} | "
               f"{r['seconds']:.0f} | {r['processor']:.0f} |")


def cell(text):
    return text.replace("|", "/")


def quantize_tables(results):
    """Adult by mean over the networks that all tools were measured on, then VD and RVD of the other data sets."""
    of = {label: {key: r for key, r in results.get(label, {}).items() if "failed" not in r} for label, *_ in QUANTIZERS}
    adult = set.intersection(*({key for key in r if key.startswith("adult/")} for r in of.values() if r))
    yield (f"| Adult, {len(adult)} networks | bytes | accuracy | VD(0.1) | RVD(0.1) | rms | 1 row | 256 rows | "
           "seconds | MB |")
    yield "|---|" + "---:|" * 9
    for label, rows in of.items():
        if not rows:
            failed = next(iter(results.get(label, {}).values()), {"failed": NOT_RUN})["failed"]
            yield f"| {label} | {cell(failed)} |" + " |" * 8
            continue
        value = lambda fold, get: fold(get(rows[key]) for key in sorted(adult))  # noqa: E731
        mean = lambda name: value(statistics.mean, lambda r: r[name])  # noqa: E731
        median = lambda name: value(statistics.median, lambda r: r[name])  # noqa: E731
        one, many = (value(statistics.median, lambda r: r["latency"][n]) for n in ("batch_1", "batch_256"))
        yield (f"| {label} | {mean('bytes'):,.0f} | {100 * mean('accuracy'):+.2f} % | {percent(mean('vd'))} | "
               f"{percent(mean('rvd'))} | {mean('rms'):.3f} | {one:.2f} | {many:.2f} | {median('processor'):.1f} | "
               f"{median('memory'):.0f} |")
    yield ""
    others = [name for name in DATA if name != "adult"]
    yield "| VD(0.1), RVD(0.1) | " + " | ".join(DATA[name][0] for name in others) + " |"
    yield "|---|" + "---:|" * len(others)
    for label, rows in of.items():
        found = [rows.get(f"{name}/mlp2-s0") for name in others]
        if any(found):
            cells = [f"{percent(r['vd'])}, {percent(r['rvd'])}" if r else "" for r in found]
            yield f"| {label} | " + " | ".join(cells) + " |"


def recourse_table(results):
    """Shares are of all people; the cost is against that of cfq, for people whom both help."""
    yield ("| people | tool | answered | accepted | break a constraint | success | cost against cfq | kept at 4 bits | "
           "seconds | MB |")
    yield "|---|---|" + "---:|" * 8
    for (name, model), solvers in RECOURSE.items():
        found = results.get(f"{name}/{model}", {})
        kind = "logistic regression" if model.startswith("logreg") else "network"
        title = f" {DATA[name][0]}, {kind}" + (f", {next(iter(found.values()))['people']}" if found else "")
        own = found.get("cfq", {}).get("answers", {})
        for solver in solvers:
            r, label = found.get(solver, {"failed": NOT_RUN}), SOLVERS[solver][0]
            if "failed" in r:
                yield f"|{title} | {label} | {cell(r['failed'])} |" + " |" * 7
                title = ""
                continue
            answers, n = r["answers"], r["people"]
            accepted = {row for row, a in answers.items() if a["margin"] > 0}
            broken = {row for row, a in answers.items() if a["violation"]}
            good = accepted - broken
            both = [answers[row]["cost"] / own[row]["cost"] for row in good if helps(own.get(row))]
            kept = sum(answers[row]["quantized"] > 0 for row in good)
            yield (f"|{title} | {label} | {percent(len(answers) / n)} | {percent(len(accepted) / n)} | "
                   f"{percent(len(broken) / n)} | {percent(len(good) / n)} | "
                   f"{f'{statistics.median(both):.2f}' if both else 'none'} | "
                   f"{percent(kept / len(good)) if good else 'none'} | {r['processor']:.1f} | {r['memory']:.0f} |")
            title = ""


def helps(answer):
    """Whether the model accepts a point that breaks no constraint."""
    return answer and answer["margin"] > 0 and not answer["violation"]


def machine(installed):
    m, doctor = installed["cfq"]["machine"], installed["cfq"]["doctor"]
    packages = sorted({p for peer in peers().values() for p in peer["packages"]})
    vnni = "no VNNI" if doctor["saturates"] else "VNNI"
    yield (f"{m['cores']} cores of {m['processor']} ({', '.join(doctor['cpu'])}; {vnni}), "
           f"{m['platform']}, Python {m['python']}; all files run by ONNX Runtime {doctor['library']['version']}. "
           f"Packages: {', '.join(packages)}.")


def tables(o, _):
    """Writes each table between its marks on the page."""
    text = PAGE.read_text()
    for name, step, lines in [("machine", "install", machine), ("install", "install", install_table),
                              ("quantizers", "quantize", quantize_tables), ("recourse", "recourse", recourse_table)]:
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        head, rest = text.split(begin)
        _, tail = rest.split(end)
        text = head + begin + "\n" + "\n".join(lines(load(step))) + "\n\n" + end + tail
    PAGE.write_text(text)


def main():
    steps = {"install": install, "quantize": quantize, "recourse": recourse, "tables": tables}
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shared", type=Path, default=ROOT.parent / "shared", help="folder with data/ and models/")
    p.add_argument("--environments", type=Path, default=Path(tempfile.gettempdir(), "cfq-compare"),
                   help="folder of the environments")
    p.add_argument("--only", action="append", help="measure only this tool again; may be repeated")
    p.add_argument("steps", nargs="*", help=f"of {', '.join(steps)}; all without any")
    o = p.parse_args()
    if unknown := set(o.steps) - set(steps):
        p.error(f"unknown step {unknown.pop()}")
    for name in o.steps or steps:
        steps[name](o, load(name))


if __name__ == "__main__":
    main()
