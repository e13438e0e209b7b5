/** Lets Node import Lua as text, as Wrangler does for the Worker: `node --import ./bench/lua-text.ts …`. */
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'

registerHooks({
  load(url, context, nextLoad) {
    if (!url.endsWith('.lua')) return nextLoad(url, context)
    const source = `export default ${JSON.stringify(readFileSync(fileURLToPath(url), 'utf8'))}`
    return { format: 'module', source, shortCircuit: true }
  },
})
