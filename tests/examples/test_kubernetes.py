"""The files for Kubernetes: they fit its schemas, the command line and each other."""

import copy
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.service.cli import app
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.inference.server.calls.host_usage import HostUsage
from neurald.service.inference.server.http.metrics import metrics_text
from neurald.service.inference.server.http.openapi import openapi_document

yaml = pytest.importorskip("yaml", reason="reading YAML needs PyYAML, which mkdocs brings")

FOLDER = Path(__file__).parents[2] / "examples" / "kubernetes"
CONTAINERFILE = FOLDER.parent / "container" / "Containerfile"
HELM = shutil.which("helm", path=os.pathsep.join((str(Path(sys.prefix) / "bin"), os.environ.get("PATH", ""))))
#: The fields of a ServingRuntime besides those of a pod, by KServe's reference of v1alpha1.
_RUNTIME_FIELDS = {"annotations", "supportedModelFormats", "protocolVersions"}
_FORMAT_FIELDS = {"name", "version", "autoSelect", "priority"}


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def containers() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Returns each container, with the specification of its pod."""
    pod = read("deployment.yaml")["spec"]["template"]["spec"]
    runtime = read("serving-runtime.yaml")["spec"]
    return [(pod["containers"][0], pod), (runtime["containers"][0], runtime)]


def runtime_as_pod() -> dict[str, Any]:
    """Returns the pod that a ServingRuntime describes, for the schema of pods."""
    spec = dict(read("serving-runtime.yaml")["spec"])
    extra = {key: spec.pop(key) for key in _RUNTIME_FIELDS}
    metadata = {"name": "neurald", "annotations": extra["annotations"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_they_fit_the_schemas_of_kubernetes() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="the group test is not installed").validate
    for name in read("kustomization.yaml")["resources"]:
        validate(read(name), "1.30", strict=True)
    validate(runtime_as_pod(), "1.30", strict=True)
    broken = runtime_as_pod()
    broken["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(Exception, match="readynessProbe"):
        validate(broken, "1.30", strict=True)


def test_the_files_of_kserve_have_known_fields() -> None:
    runtime = read("serving-runtime.yaml")
    assert (runtime["apiVersion"], runtime["kind"]) == ("serving.kserve.io/v1alpha1", "ServingRuntime")
    assert runtime["spec"].keys() == _RUNTIME_FIELDS | {"containers", "volumes"}
    assert runtime["spec"]["protocolVersions"] == ["v2", "grpc-v2"]
    for each in runtime["spec"]["supportedModelFormats"]:
        assert each.keys() == _FORMAT_FIELDS
    # KServe looks for the container of this name.
    assert runtime["spec"]["containers"][0]["name"] == "kserve-container"
    service = read("inference-service.yaml")
    assert (service["apiVersion"], service["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    model = service["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"]["name"] in {each["name"] for each in runtime["spec"]["supportedModelFormats"]}
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]


def test_the_command_line_accepts_the_arguments() -> None:
    for container, pod in containers():
        name, *arguments = container["args"]
        command = get_command(app).commands[name]  # type: ignore[attr-defined]
        options = command.make_context(name, list(arguments)).params
        assert options["insecure"] is True
        sleep_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        assert sleep_s + options["drain"] < pod.get("terminationGracePeriodSeconds", 30)
        mounted = {each["mountPath"] for each in container["volumeMounts"]}
        (repository,) = options["repository"]
        assert str(repository) in {*mounted, "/mnt/models"}
        volumes = {each["name"] for each in pod["volumes"]}
        assert {each["name"] for each in container["volumeMounts"]} == volumes
        assert container["image"].partition(":")[0] == "neurald"
        user = (container["securityContext"] | pod.get("securityContext", {}))["runAsUser"]
        assert f"--uid {user} " in CONTAINERFILE.read_text(encoding="utf-8")


def test_a_pod_that_ends_takes_calls_until_clients_have_heard_of_it() -> None:
    """Knative, by which KServe runs pods, does so itself, and refuses containers that say it."""
    (deployed, _), (of_kserve, _) = containers()
    assert deployed["lifecycle"]["preStop"]["sleep"]["seconds"] > 0
    assert "lifecycle" not in of_kserve


def test_ports_and_probes_exist() -> None:
    paths = openapi_document()["paths"]
    for container, _ in containers():
        _, *arguments = container["args"]
        http = next(each for each in arguments if each.startswith("--http="))
        ports = {each.get("name"): each["containerPort"] for each in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            request = container[probe]["httpGet"]
            assert request["path"] in paths
            port = ports.get(request["port"], request["port"])
            assert http.endswith(f":{port}")
    deployed, _ = containers()[0]
    names = {each["name"] for each in deployed["ports"]}
    assert {each["targetPort"] for each in read("service.yaml")["spec"]["ports"]} == names
    policy = read("network-policy.yaml")["spec"]["ingress"][0]
    assert {each["port"] for each in policy["ports"]} == names


def test_the_autoscaler_uses_a_metric_that_there_is() -> None:
    scaler = read("autoscaler.yaml")["spec"]
    assert scaler["scaleTargetRef"]["name"] == read("deployment.yaml")["metadata"]["name"]
    names = [each["pods"]["metric"]["name"] for each in scaler["metrics"] if each["type"] == "Pods"]
    text = metrics_text([], RequestBudget(1), HostUsage())
    assert names
    assert all(f"# TYPE {name} gauge" in text for name in names)


def rendered(*options: str) -> dict[str, Any]:
    """Returns what helm makes of the chart, by kind."""
    if HELM is None:
        pytest.skip("helm is not installed; the package helm-binary of the group test has it")
    command = [HELM, "template", "neurald", str(FOLDER / "chart"), *options]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return {each["kind"]: each for each in yaml.safe_load_all(text) if each}


def without_defaults(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document without what only one of the chart and the file has."""
    found: dict[str, Any] = copy.deepcopy(document)
    spec = found["spec"]
    if found["kind"] == "Deployment":
        del spec["replicas"]  # which the autoscaler chooses
        spec = spec["template"]["spec"]
    for container in spec.get("containers", ()):
        container.pop("imagePullPolicy", None)
    return found


def test_the_chart_makes_the_same_as_the_files() -> None:
    found = rendered("--set", "autoscaling.enabled=false")
    scaled = rendered()
    assert "replicas" not in scaled["Deployment"]["spec"]
    assert found.keys() == scaled.keys() - {"HorizontalPodAutoscaler"}
    found["HorizontalPodAutoscaler"] = scaled["HorizontalPodAutoscaler"]
    files = {each["kind"]: each for each in map(read, read("kustomization.yaml")["resources"])}
    assert found.keys() == files.keys()
    for kind, document in files.items():
        assert without_defaults(found[kind]) == without_defaults(document)
    runtime = rendered("--set", "kserve.enabled=true")
    assert runtime.keys() == {"ServingRuntime"}
    assert without_defaults(runtime["ServingRuntime"]) == without_defaults(read("serving-runtime.yaml"))


def test_the_chart_fits_the_schemas_with_other_values() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="the group test is not installed").validate
    values = ["image.tag=1.2", "models.claim=mine", "autoscaling.maxReplicas=20", "resources.limits.cpu=8"]
    found = rendered(
        "--set", ",".join(values), "--set", "arguments={--service-limit=queue=9,--model-control-mode=poll}"
    )
    for document in found.values():
        validate(document, "1.30", strict=True)
    pod = found["Deployment"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["image"] == "neurald:1.2"
    assert "--service-limit=queue=9" in container["args"]
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "mine"
    assert found["HorizontalPodAutoscaler"]["spec"]["maxReplicas"] == 20


def test_the_chart_encrypts_and_authenticates() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="the group test is not installed").validate
    found = rendered("--set", "tls.secret=certificate,auth.secret=token")
    for document in found.values():
        validate(document, "1.30", strict=True)
    template = found["Deployment"]["spec"]["template"]
    pod, (container,) = template["spec"], template["spec"]["containers"]
    assert template["metadata"]["annotations"]["prometheus.io/scheme"] == "https"
    name, *arguments = container["args"]
    options = get_command(app).commands[name].make_context(name, list(arguments)).params  # type: ignore[attr-defined]
    assert not options["insecure"]
    mounted = {each["mountPath"]: each for each in container["volumeMounts"]}
    volumes = {each["name"]: each.get("secret") for each in pod["volumes"]}
    tls = volumes[mounted[str(options["tls"])]["name"]]
    assert tls["secretName"] == "certificate"
    files = TlsFiles.in_folder(Path("/folder"))
    expected = {each.name for each in (files.certificate, files.key, files.authority)}
    assert {each["path"] for each in tls["items"]} == expected
    token_file = Path(options["auth_token_file"])
    token = volumes[mounted[str(token_file.parent)]["name"]]
    assert (token["secretName"], token["items"][0]["path"]) == ("token", token_file.name)
    # The service refuses keys that others than root and its group can read.
    assert {each["defaultMode"] for each in (tls, token)} == {0o440}
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    assert "tls]" in CONTAINERFILE.read_text(encoding="utf-8")


def test_the_chart_has_a_token_without_encryption() -> None:
    found = rendered("--set", "auth.secret=token")
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert {"--insecure", "--auth-token-file=/etc/neurald/auth/token"} <= set(container["args"])
    assert "scheme" not in container["readinessProbe"]["httpGet"]


@pytest.mark.parametrize(
    "value",
    [
        *("replicas=0", "models.claim=", "arguments={serve}"),
        *("tls.secret=x", "tls.folder=x", "auth.token=x", "auth.secret=x,kserve.enabled=true"),
    ],
)
def test_the_chart_refuses_values(value: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        rendered("--set", value)
    assert value.partition("=")[0].partition(".")[0] in caught.value.stderr
