/** A value in a query and in a body: whichever of the two some API takes, it is counted as that caller, or as nobody. */
import fc from 'fast-check'
import { expect } from 'vitest'
import { createJudge, receive } from '../support/judge-readings.ts'
import type { Spelt } from '../support/lenient-readings.ts'
import { fuzz } from './fuzz.ts'

const VALUE = 'planted-secret.k1~x'

interface Given {
  readonly query: string | undefined
  readonly form: string | undefined
  readonly json: string | undefined
}

/** The order in which frameworks that take all for one set of parameters look for one, as their sources say. */
const READERS: Readonly<Record<string, (given: Given) => string | undefined>> = {
  'Flask (request.values)': ({ query, form }) => query ?? form,
  'Jetty and Tomcat (getParameter)': ({ query, form }) => query ?? form,
  'fasthttp (FormValue)': ({ query, form }) => query ?? form,
  'Mojolicious (param), the last': ({ query, form }) => form ?? query,
  'Go (FormValue)': ({ query, form }) => form ?? query,
  'PHP ($_REQUEST)': ({ query, form }) => form ?? query,
  'Rails (params)': ({ query, form, json }) => json ?? form ?? query,
  'Laravel (input)': ({ query, form, json }) => json ?? form ?? query,
}

const PADDING = 'x'.repeat(9_000)
const value = fc.option(fc.constantFrom(VALUE, VALUE, 'junk'), { nil: undefined })
const place = fc.constantFrom('form', 'json', 'multipart')
const given = fc.record({ inQuery: value, inBody: value, place, isLong: fc.boolean() })

interface Sent {
  readonly spelt: Spelt
  readonly given: Given
}

function send({ inQuery, inBody, place, isLong }: typeof given extends fc.Arbitrary<infer T> ? T : never): Sent {
  const query = inQuery === undefined ? 'a=1' : `a=1&api_key=${inQuery}`
  const isJson = place === 'json'
  const read = { query: inQuery, form: isJson ? undefined : inBody, json: isJson ? inBody : undefined }
  if (inBody === undefined) return { spelt: { query, headers: {} }, given: read }
  const pad = isLong ? PADDING : 'x'
  const [type, body] = {
    form: ['application/x-www-form-urlencoded', `pad=${pad}&api_key=${inBody}`],
    json: ['application/json; charset=utf-8', JSON.stringify({ pad, api_key: inBody })],
    multipart: [
      'multipart/form-data; boundary=b',
      `--b\r\nContent-Disposition: form-data; name="api_key"\r\n\r\n${inBody}\r\n--b--\r\n${pad}`,
    ],
  }[place] as [string, string]
  return { spelt: { query, headers: { 'Content-Type': type }, body }, given: read }
}

const judges = Promise.all((['query', 'form', 'json'] as const).map((kind) => createJudge(kind, VALUE)))

fuzz(
  'a caller that some API finds in the query or in the body is never another one',
  600,
  fc.asyncProperty(given, async (sent) => {
    const { spelt, given } = send(sent)
    const found = Object.entries(READERS).filter(([, read]) => read(given) === VALUE)
    if (found.length === 0) return
    const all = await Promise.all((await judges).map((judge) => judge(receive(spelt))))
    const who = `${found[0]?.[0]}, for ${JSON.stringify(sent)}`
    const [query, form, json] = all
    expect(query?.outcome, who).not.toBe('another caller')
    // A policy by one kind of body is about that kind.
    if (given.json === undefined) expect(form?.outcome, who).not.toBe('another caller')
    if (given.form === undefined) expect(json?.outcome, who).not.toBe('another caller')
  }),
)

fuzz(
  'a caller that is blocked does not get in where the query or a body that can be read says who it is',
  600,
  fc.asyncProperty(given, async (sent) => {
    const { spelt, given } = send(sent)
    if (!Object.values(READERS).some((read) => read(given) === VALUE)) return
    const [query, form] = await Promise.all((await judges).map((judge) => judge(receive(spelt))))
    const isReadable = !sent.isLong || sent.inBody === undefined
    if (isReadable || given.query === VALUE) expect(query?.isBlocked, JSON.stringify(sent)).toBe(true)
    if (given.json === undefined) expect(form?.isBlocked, JSON.stringify(sent)).toBe(true)
  }),
)
