// Starts `tilec lsp` for .tile files; everything else is the server's.
//
// SPDX-License-Identifier: Apache-2.0
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const settings = vscode.workspace.getConfiguration("tilec");
  const run = { command: settings.get("path"), args: ["lsp", `--target=${settings.get("target")}`] };
  client = new LanguageClient("tilec", "tilec", run, { documentSelector: [{ language: "tile" }] });
  return client.start();
};

exports.deactivate = () => (client ? client.stop() : undefined);
