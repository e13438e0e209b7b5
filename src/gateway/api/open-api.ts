/** Writes the OpenAPI document of an API. */
import { toJsonSchema } from '@valibot/to-json-schema'
import type * as v from 'valibot'
import manifest from '../../../package.json' with { type: 'json' }
import type { ApiOperation, Schema } from './operation.ts'

export interface ApiDescription {
  readonly title: string
  readonly description: string
  readonly url: string
  readonly securitySchemes: Readonly<Record<string, object>>
}

const ADMIN: ApiDescription = {
  title: 'Sluice, for its operators',
  description: 'Who is limited, and what to do about it. Errors are application/problem+json (RFC 9457).',
  url: '/_sluice/admin',
  securitySchemes: {
    token: { type: 'http', scheme: 'bearer', description: 'ADMIN_TOKEN.' },
    session: { type: 'apiKey', in: 'cookie', name: 'sluice_session', description: 'The dashboard’s own.' },
  },
}

/** Describes the API, from the schemas by which it is checked (OpenAPI 3.1). */
export function describeApi(operations: readonly ApiOperation[], about: ApiDescription = ADMIN): object {
  const { title, description, url, securitySchemes } = about
  const paths = operations.map((each) => [each.path, { [each.method.toLowerCase()]: describeOperation(each) }])
  return {
    openapi: '3.1.0',
    info: {
      title,
      version: manifest.version,
      description,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url }],
    security: Object.keys(securitySchemes).map((scheme) => ({ [scheme]: [] })),
    paths: Object.fromEntries(paths),
    components: {
      schemas: { Problem: PROBLEM },
      responses: { Problem: { description: 'Problem.', content: { 'application/problem+json': { schema: REF } } } },
      securitySchemes,
    },
  }
}

const REF = { $ref: '#/components/schemas/Problem' }
const PROBLEM = {
  type: 'object',
  required: ['type', 'title', 'status', 'detail'],
  properties: {
    type: { type: 'string', format: 'uri-reference' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    pointer: { type: 'string', description: 'A JSON pointer to the mistake in the body, such as `#/caller/ip`.' },
    retry_after_ms: { type: 'integer' },
  },
}

function describeOperation({ path, summary, description, body, query, answer, everyMs }: ApiOperation): object {
  return {
    operationId: path.slice(1).replace(/\/(\w)/g, (_, letter: string) => letter.toUpperCase()),
    summary,
    ...(description !== undefined && { description }),
    ...(query && { parameters: describeParameters(query) }),
    ...(body && { requestBody: { required: true, content: describeJson(body, 'input') } }),
    responses: {
      200: {
        description: 'Done.',
        ...(answer && { content: everyMs ? describeEvents(answer) : describeJson(answer, 'output') }),
      },
      default: { $ref: '#/components/responses/Problem' },
    },
  }
}

function describeParameters(schema: Schema): object[] {
  const { entries } = schema as unknown as v.StrictObjectSchema<v.ObjectEntries, undefined>
  return Object.entries(entries).map(([name, entry]) => ({
    ...{ name, in: 'query', required: entry.type !== 'optional' },
    schema: describeSchema(entry as Schema, 'input'),
  }))
}

function describeJson(schema: Schema, typeMode: 'input' | 'output'): object {
  return { 'application/json': { schema: describeSchema(schema, typeMode) } }
}

function describeEvents(schema: Schema): object {
  const data = { contentMediaType: 'application/json', contentSchema: describeSchema(schema, 'output') }
  const description = 'Server-sent events, with this as the data of each; one named `problem` has a Problem.'
  return { 'text/event-stream': { schema: { type: 'string', description, ...data } } }
}

function describeSchema(schema: Schema, typeMode: 'input' | 'output'): object {
  const { $schema: _, ...rest } = toJsonSchema(schema, { target: 'draft-2020-12', typeMode, errorMode: 'ignore' })
  return rest
}
