/** Asks each promise of each host of this runtime, and prints a row of the table for each, as JSON. */
import { PROMISES } from './promises.js'

const isNode = !globalThis.Bun && !globalThis.Deno
const hosts = isNode ? (await import('./node-hosts.js')).NODE_HOSTS : (await import('./web-hosts.js')).WEB_HOSTS
const [, , filter = ''] = process.argv

for (const [host, start] of Object.entries(hosts)) {
  if (!host.includes(filter)) continue
  const cells = {}
  for (const [promise, [options, ask]] of Object.entries(PROMISES)) {
    const app = await start({ ...options, log() {} })
    cells[promise] = await ask(app).catch((error) => error.message.split('\n', 1)[0])
    await app.close()
  }
  console.log(JSON.stringify({ host, ...cells }))
}
process.exit()
