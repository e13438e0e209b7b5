/** A Worker that tells how its dry run ended, where Workers start. */
import { env } from 'cloudflare:workers'
import { readSetting } from '../../../src/gateway/compose/setting.ts'
import { runDry } from '../../../src/gateway/run-dry.ts'

const ended = await runDry(readSetting({ ...env }, {})).then(
  ({ status }) => `${status}`,
  (error) => `${error}`,
)

export default { fetch: () => new Response(ended) }
