import { readFile } from 'node:fs/promises'
import GithubSlugger from 'github-slugger'
import { marked, type Token, type Tokens } from 'marked'

/** What a page of Markdown holds, as far as tests look at it. */
export interface Page {
  /** Targets of links and images, as written. */
  readonly links: readonly string[]
  /** Anchors of the headings, as GitHub makes them. */
  readonly anchors: ReadonlySet<string>
  /** Blocks of code, with the language that each names. */
  readonly code: readonly { readonly language: string; readonly text: string }[]
  /** Pieces within a line that are set as code. */
  readonly codeInLine: readonly string[]
  readonly tables: readonly Table[]
}

/** Rows of cells; of each cell, the pieces that are set as code, and whether it holds nothing else. */
export interface Table {
  readonly header: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
}

export interface Cell {
  readonly code: readonly string[]
  readonly isCode: boolean
}

export async function readPage(path: string): Promise<Page> {
  const links: string[] = []
  const anchors = new Set<string>()
  const code: { language: string; text: string }[] = []
  const codeInLine: string[] = []
  const tables: Table[] = []
  const slugger = new GithubSlugger()
  marked.walkTokens(marked.lexer(await readFile(path, 'utf8')), (token) => {
    if (belongsTo(token, 'link') || belongsTo(token, 'image')) links.push(token.href)
    else if (belongsTo(token, 'heading')) anchors.add(slugger.slug(plainText(token.tokens)))
    else if (belongsTo(token, 'code')) code.push({ language: token.lang ?? '', text: token.text })
    else if (belongsTo(token, 'codespan')) codeInLine.push(token.text)
    else if (belongsTo(token, 'table')) {
      tables.push({ header: token.header.map(({ text }) => text), rows: token.rows.map((row) => row.map(findCell)) })
    }
  })
  return { links, anchors, code, codeInLine, tables }
}

interface TokenTypes {
  link: Tokens.Link
  image: Tokens.Image
  heading: Tokens.Heading
  code: Tokens.Code
  table: Tokens.Table
  codespan: Tokens.Codespan
}

function belongsTo<T extends keyof TokenTypes>(token: Token, type: T): token is TokenTypes[T] {
  return token.type === type
}

function findCell({ tokens }: Tokens.TableCell): Cell {
  const code = tokens.filter((token) => belongsTo(token, 'codespan')).map(({ text }) => text)
  return { code, isCode: tokens.length === 1 && code.length === 1 }
}

function plainText(tokens: readonly Token[]): string {
  return tokens.map((token) => ('tokens' in token && token.tokens ? plainText(token.tokens) : readText(token))).join('')
}

function readText(token: Token): string {
  return 'text' in token ? token.text : token.raw
}
