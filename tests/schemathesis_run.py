"""Requests made from the gateway's own ``/openapi.json``, good and bad ones, by schemathesis."""

import json
import subprocess
import sys
from pathlib import Path

SHORT = {"max_new_tokens", "max_completion_tokens"}
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,ignored_auth"


def pinned(document, **models):
    """Return the schema with each body's model one of those that are served: other names are a 404 at once.

    Answers are short too, so that real engines have time for many.

    Args:
        document: As `/openapi.json` tells it.
        **models: For the last word of each path with a body, the models that answer there.
    """
    document = json.loads(json.dumps(document))
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                schema = content["schema"]
                if (names := models.get(path.rpartition("/")[2])) is not None:
                    schema["properties"]["model"] = {"type": "string", "enum": names}
                for name in SHORT & schema["properties"].keys():
                    schema["properties"][name] = {"type": "integer", "enum": [12]}
                    schema["required"].append(name)
    return document


def run(document, url, key, folder, *words):
    """Return what schemathesis tells after asking; it has to find nothing."""
    schema = Path(folder) / "openapi.json"
    schema.write_text(json.dumps(document))
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", str(schema), "--url", url, "--no-color"]
    command += ["--checks", CHECKS, "--generation-deterministic"]
    command += ["--header", f"Authorization: Bearer {key}", "--suppress-health-check", "all", "--no-shrink"]
    command += ["--warnings", "off", "--request-timeout", "30", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-2000:]
    return done.stdout
