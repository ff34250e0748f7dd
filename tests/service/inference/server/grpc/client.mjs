// Asks a V2 service over gRPC as programs in JavaScript do. Arguments: the address, the .proto file.
import { createRequire } from "node:module";
const require = createRequire(process.cwd() + "/");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [address, proto] = process.argv.slice(2);
const options = { keepCase: true, longs: Number, defaults: true };
const { inference } = grpc.loadPackageDefinition(loader.loadSync(proto, options));
const client = new inference.GRPCInferenceService(address, grpc.credentials.createInsecure());

const call = (name, request, options = {}) =>
  new Promise((resolve, reject) =>
    client[name](request, options, (error, answer) => (error ? reject(error) : resolve(answer))),
  );
const status = (name, request, options) => call(name, request, options).then(
  () => "OK",
  (error) => grpc.status[error.code],
);
const input = { name: "x", datatype: "FP32", shape: [1, 4], contents: { fp32_contents: [1, 2, 3, 4] } };
const request = { model_name: "same", id: "node", inputs: [input], parameters: { receipt: { bool_param: true } } };
const floats = (answer) => {
  const bytes = answer.raw_output_contents[0];
  return Array.from({ length: bytes.length / 4 }, (_, n) => bytes.readFloatLE(4 * n));
};

const found = {
  live: (await call("ServerLive", {})).live,
  ready: (await call("ModelReady", { name: "same" })).ready,
  metadata: (await call("ModelMetadata", { name: "same" })).inputs[0].datatype,
  config: (await call("ModelConfig", { name: "same" })).config.name,
};
const answer = await call("ModelInfer", request);
found.answer = floats(answer);
found.id = answer.id;
found.receipt = JSON.parse(answer.parameters.receipt.string_param).devices.length > 0;
const raw = Buffer.alloc(16);
[5, 6, 7, 8].forEach((value, n) => raw.writeFloatLE(value, 4 * n));
const plain = { ...input, contents: undefined };
found.raw = floats(await call("ModelInfer", { ...request, inputs: [plain], raw_input_contents: [raw] }));
found.missing = await status("ModelInfer", { ...request, model_name: "missing" });
found.invalid = await status("ModelInfer", { ...request, inputs: [] });
found.concurrent = (await Promise.all(Array.from({ length: 50 }, () => call("ModelInfer", request)))).length;
found.stream = await new Promise((resolve, reject) => {
  const stream = client.ModelStreamInfer();
  const ids = [];
  stream.on("data", (each) => ids.push(each.error_message || each.infer_response.id));
  stream.on("error", reject);
  stream.on("end", () => resolve(ids));
  for (let n = 0; n < 5; n++) stream.write({ ...request, id: `n${n}` });
  stream.end();
});
found.cancelled = await new Promise((resolve) => {
  const running = client.ModelInfer(
    { model_name: "count", inputs: [{ name: "x", datatype: "INT32", shape: [], contents: { int_contents: [2000000000] } }] },
    (error) => resolve(grpc.status[error.code]),
  );
  setTimeout(() => running.cancel(), 200);
});
console.log(JSON.stringify(found));
client.close();
