// A long-lived process that runs commands through srt's library, in the working directory: node srt_session.mjs SRT BWRAP
// WRITE... It is asked line by line, as JSON: a command is only wrapped, which is answered by what srt made of it; `true` runs
// what was wrapped last, and cleans up after it as a client does.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'

const [srt, bwrapPath, ...allowWrite] = process.argv.slice(2)
const { SandboxManager } = await import(pathToFileURL(srt))
await SandboxManager.initialize({
  network: { allowedDomains: [], deniedDomains: [] },
  filesystem: { denyRead: [], allowWrite, denyWrite: [] },
  bwrapPath,
})

async function run(wrapped) {
  const child = spawn(wrapped, { shell: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err, [code, signal]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  SandboxManager.cleanupAfterCommand()
  return { status: code ?? signal, out, err }
}

let wrapped
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line)
  const answer = asked === true ? await run(wrapped) : (wrapped = await SandboxManager.wrapWithSandbox(asked))
  console.log(JSON.stringify(answer))
}
await SandboxManager.reset()
process.exit(0)
