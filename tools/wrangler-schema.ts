/**
 * The schema of wrangler.toml for editors: that of Wrangler, in which variables and policies are those of the tables, each
 * with its sentence of the docs. Editors follow no reference from one schema to another, so it is one file.
 */
import { SOURCE_KINDS } from '../src/core/model/identity-source.ts'
import { MAX_COST, type Reader, type Readers } from '../src/core/options/readers.ts'
import { listNames } from '../src/core/runtime/lists.ts'
import { policyKeys } from '../src/http/config/policy-keys.ts'
import { SECRETS, VARIABLES, variables } from '../src/http/config/variables.ts'
import { explainPolicyKeys, explainVariables, type Setting } from './settings-docs.ts'
import { readSource } from './write-generated.ts'

interface Schema {
  readonly [keyword: string]: unknown
}

const NAME = { pattern: '^[\\w-]{1,64}$' }
const TOKEN = "[!#$%&'*.^_`|~0-9A-Za-z-]+"
const WINDOW = '\\d{1,11}(ms|[smhdw])'
const LIMIT = `\\s*\\d{1,10}(/(${WINDOW}|day|week|month|year))?\\s*`
const POINTER = '(/[^\\s+]*)+'
/** Names of each kind; the rest have what is no space. */
const SOURCE_NAMES: Readonly<Record<string, string>> = { header: TOKEN, cookie: TOKEN, json: POINTER }
const SOURCE = listNames(SOURCE_KINDS)
  .filter((kind) => SOURCE_KINDS[kind].belongsTo !== 'application')
  .map((kind) => (SOURCE_KINDS[kind].name ? `${kind}:${SOURCE_NAMES[kind] ?? '[^\\s+]+'}` : kind))
  .join('|')
const STATUS = '\\s*([2-5]\\d\\d|[2-5][xX]{2}( [eE][xX][cC][eE][pP][tT]( [2-5]\\d\\d)+)?)\\s*'

const matchText = (pattern: string): Schema => ({ type: 'string', pattern: `^(${pattern})$` })
const integer = (minimum: number, maximum: number): Schema => ({ type: 'integer', minimum, maximum })
const repeatItem = (item: string): string => `(${item})(,(${item}))*`

/** Joins schemas of different types, whose keywords do not meet: editors then show what is wrong, and not only where. */
const either = (...schemas: readonly Schema[]): Schema =>
  Object.assign({}, ...schemas, { type: schemas.flatMap(({ type }) => type) })

const listOrText = (inText: string, items = matchText(inText)) =>
  either(matchText(repeatItem(inText)), { type: 'array', minItems: 1, items })

const limits = either(matchText(repeatItem(LIMIT)), { type: 'integer', minimum: 1 })
const route = (path: string) => `\\s*(([A-Za-z-]+|\\*)\\s+)?(/${path}|\\*)\\s*`
const cost = `header:${TOKEN}|json:${POINTER}|bytes(:request)?|ms`
const webUrl = matchText('https://\\S+')
const longText = { type: 'string', minLength: 1, maxLength: 10_000 }
const texts = either({ type: 'string' }, { type: 'array', items: { type: 'string' } })

const PART = { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 }

/** What code reads, as far as a schema can tell. Nothing that is accepted may be refused here. */
const READ_BY_CODE: Readonly<Record<string, Schema>> = {
  limits: { ...limits, type: ['string', 'integer', 'object'], additionalProperties: limits, propertyNames: NAME },
  plan: matchText(`\\s*(header:${TOKEN}|claim:\\S+)\\s*`),
  by: matchText(`\\s*(${SOURCE})\\s*(\\+\\s*(${SOURCE})\\s*)*`),
  match: listOrText(route('[^\\s,]*'), matchText(route('\\S*'))),
  cost: either(integer(1, MAX_COST), matchText(`\\d{1,15}|header:${TOKEN}|bytes:request(/\\d+)?`)),
  untold: either(integer(0, MAX_COST), matchText('\\d{1,15}|(bytes|bytes:request|ms)(/\\d+)?')),
  slot_ttl: matchText(WINDOW),
  anonymous: matchText('ip|skip|deny(:4\\d\\d)?'),
  actual_cost: either(matchText(cost), {
    type: 'object',
    minProperties: 1,
    additionalProperties: false,
    patternProperties: { [`^(${cost})$`]: { type: 'number', minimum: -1e6, maximum: 1e6, not: { const: 0 } } },
  }),
  failures: either(integer(200, 599), listOrText(STATUS, either(integer(200, 599), matchText(STATUS)))),
  penalty: matchText(WINDOW),
  refusal: {
    type: 'object',
    additionalProperties: false,
    properties: { type: webUrl, detail: longText, html: longText, redirect: webUrl },
  },
  reserve: {
    type: 'object',
    additionalProperties: false,
    properties: { critical: PART, default: PART },
  },
  LEASES: { anyOf: [{ enum: ['off', 'auto'] }, either(integer(2, 10_000), matchText('\\d{1,15}'))], default: 'off' },
  RATE_LIMITS: matchText(`off|${repeatItem(LIMIT)}`),
  EXEMPT: texts,
  CORS_ORIGINS: texts,
}

/** The schema of one value, as wrangler.toml may have it. */
function describeValue(name: string, reader: Reader): Schema {
  const { values, min, max, pattern, numbers, byDefault } = reader
  const own = READ_BY_CODE[name]
  if (own) return own
  const text = { type: 'string', ...((pattern ?? numbers) && { pattern: (pattern ?? numbers)?.source }) }
  const number = min === undefined || max === undefined ? { type: 'number' } : integer(min, max)
  const type = values ? { enum: values, type: typeof values[0] } : numbers ? either(number, text) : text
  return { ...type, ...(byDefault !== undefined && { default: byDefault }) }
}

function describeSettings(settings: readonly Setting[], readers: Readers): Schema {
  return Object.fromEntries(
    settings.map(({ name, sentence }) => {
      return [name, { ...describeValue(name, readers[name] as Reader), description: sentence }]
    }),
  )
}

/** Where the schema of a policy is in that of the file. */
const POLICY = { $ref: '#/definitions/SluicePolicy' }

/** The schemas that others refer to. */
export function describeDefinitions(): { readonly SluicePolicy: Schema } {
  return {
    SluicePolicy: {
      type: 'object',
      required: ['name'],
      additionalProperties: false,
      properties: describeSettings(explainPolicyKeys(), policyKeys),
      // Taplo looks for what it shows of `[[vars.POLICIES]]` in the items of the items. For tables, it says nothing.
      items: POLICY,
    },
  }
}

/** The schema of [vars]. What else is in it belongs to the Worker of somebody. */
export function describeVariables(others: unknown): Schema {
  const settings = explainVariables().filter(
    ({ name }) => VARIABLES.includes(name as never) && !SECRETS.has(name as never),
  )
  const properties = describeSettings(settings, variables)
  const { description } = properties.POLICIES as Schema
  const POLICIES = {
    ...either({ type: 'string' }, { type: 'array', minItems: 1, items: POLICY }),
    description,
  }
  return { type: 'object', properties: { ...properties, POLICIES }, additionalProperties: others }
}

interface WranglerSchema extends Schema {
  readonly definitions: Readonly<Record<string, { readonly properties: Readonly<Record<string, Schema>> }>>
}

/** The schema of the whole file. */
export function renderWranglerSchema(): string {
  const wrangler: WranglerSchema = JSON.parse(readSource('node_modules/wrangler/config-schema.json'))
  const definitions: Record<string, Schema> = { ...wrangler.definitions, ...describeDefinitions() }
  for (const name of ['RawConfig', 'RawEnvironment']) {
    const { vars, ...properties } = wrangler.definitions[name]?.properties ?? {}
    if (!vars) throw new Error(`the schema of Wrangler has no vars in ${name}`)
    const described = { ...describeVariables(vars.additionalProperties), description: vars.description ?? '' }
    definitions[name] = { ...definitions[name], properties: { ...properties, vars: described } }
  }
  // The same texts again, for one editor.
  return JSON.stringify({ ...wrangler, definitions }, (key, value) =>
    key === 'markdownDescription' ? undefined : value,
  )
}
