/** Options that several subcommands have. */
import { Option } from '@commander-js/extra-typings'

export const CONFIG = new Option(
  '-c, --config <file>',
  'wrangler.toml, .json or .jsonc to read; the next one from here upwards if left out',
)
export const ENV = new Option('-e, --env <name>', 'environment of that file, which inherits no variables').env(
  'CLOUDFLARE_ENV',
)
export const REDIS = new Option(
  '--redis <url>',
  'database in place of the Worker’s: redis://, rediss:// or the REST URL of Upstash (its token is UPSTASH_REDIS_REST_TOKEN)',
)
export const GATEWAY = new Option(
  '--gateway <url>',
  'ask the admin API of this gateway, such as https://edge.example.com, and no database; ADMIN_TOKEN comes from the environment or .dev.vars',
)
