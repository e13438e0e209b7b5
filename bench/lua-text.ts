/** Lets Node import Lua as text, as Wrangler does for the Worker: `node --import ./bench/lua-text.ts …`. */
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'

registerHooks({
  load(url, context, nextLoad) {
    if (!url.endsWith('.lua')) return nextLoad(url, context)
    const source = `export default ${JSON.stringify(readFileSync(new URL(url), 'utf8'))}`
    return { format: 'module', source, shortCircuit: true }
  },
})
