/** Requests of which each part is as long, and as full of what must be read, as workerd lets in. */

export interface Shape {
  readonly method: string
  readonly target: string
  readonly headers: Readonly<Record<string, string | readonly string[]>>
}

/** workerd or a client's HTTP library refuses more. What is longer than the gateway reads is tried as well. */
const TARGET_CHARACTERS = [20, 2_000, 4_400, 8_400, 15_000]
const FIELD_CHARACTERS = [0, 90, 1_000, 8_100, 15_000]

const PATH_PIECES =
  '/ a /a // /.. /. . ; ;a=b % %25 %2F %5C %00 %20 %2E %2e %3B %3F %41 %6C %C3%A9 %E9 %C0%AE %zz %252e %25252F %u002e %2525 | " [ Ä login :'.split(
    ' ',
  )
const QUERY_PIECES =
  '& ? = ; + %20 %25 %26 %3F _ _method &_method= ?_method .method= &a=b &key= %5Fmethod %5f%6d%65%74%68%6f%64= DELETE delete, %44 [ [] _method[ m &%255Fmethod=PUT &%20key%5B= &abcdefg=1234'.split(
    ' ',
  )
const FIELD_PIECES = [
  ...[',', ' ', ', ', '\t', 'Bearer ', '1.1 a'],
  ...'a DELETE x-a " ; = . ( sluice- close ::'.split(' '),
]
const FIELDS =
  'X-HTTP-Method-Override X-HTTP-Method X-Method-Override Authorization Via Connection Cookie X-Key X-Cost CF-Connecting-IP Forwarded Upgrade Content-Type Accept X-Forwarded-For TE'.split(
    ' ',
  )
const METHODS = ['GET', 'POST', 'HEAD', 'DELETE', 'OPTIONS']
const MAX_FIELDS = 3

type Random = () => number

export function drawShape(random: Random): Shape {
  const headers: Record<string, string | readonly string[]> = {}
  for (let i = Math.floor(random() * (MAX_FIELDS + 1)); i > 0; i--) headers[pick(FIELDS, random)] = drawField(random)
  if (random() < 0.15) return withManyFields({ method: 'GET', target: drawTarget(random), headers }, random)
  return { method: pick(METHODS, random), target: drawTarget(random), headers }
}

/** Draws one part of a shape again. */
export function changeShape(shape: Shape, random: Random): Shape {
  const { method, target, headers } = drawShape(random)
  const part = Math.floor(random() * 3)
  if (part === 0) return { ...shape, target }
  if (part === 1) return { ...shape, method }
  return { ...shape, headers: random() < 0.7 ? { ...shape.headers, ...headers } : headers }
}

/** Shows what is in a request, with long texts cut. */
export function describeShape({ method, target, headers }: Shape): string {
  const shorten = (text: string) => (text.length > 40 ? `${text.slice(0, 40)}… (${text.length})` : text)
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${shorten(String(value))}`)
  return [`${method} ${shorten(target)}`, ...(fields.length > 8 ? [`${fields.length} fields`] : fields)].join('; ')
}

function drawTarget(random: Random): string {
  const [path, query] = [pick(TARGET_CHARACTERS, random), pick(TARGET_CHARACTERS, random)]
  const total = Math.min(path + query, 15_500)
  const inPath = random() < 0.2 ? 20 : Math.round((total * path) / (path + query))
  const text = (random() < 0.5 ? '/' : '/users/') + fill(PATH_PIECES, inPath, random)
  const all = random() < 0.5 ? text : `${text}?${fill(QUERY_PIECES, total - inPath, random)}`
  return all.replaceAll('Ä', 'A%CC%88')
}

function drawField(random: Random): string {
  return fill(FIELD_PIECES, pick(FIELD_CHARACTERS, random), random).trim()
}

function withManyFields(shape: Shape, random: Random): Shape {
  const count = pick([85, 500, 1_500], random)
  const named = Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-${i}`, '1']))
  const connection = random() < 0.5 ? { Connection: Object.keys(named).join() } : {}
  return { ...shape, headers: { ...shape.headers, ...named, ...connection } }
}

/** Repeats one to four pieces: what takes time by its structure does so most if it is the same throughout. */
function fill(pieces: readonly string[], characters: number, random: Random): string {
  const unit = Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(pieces, random)).join('')
  return unit.repeat(Math.ceil(characters / unit.length)).slice(0, characters)
}

function pick<T>(items: readonly T[], random: Random): T {
  return items[Math.floor(random() * items.length)] as T
}
