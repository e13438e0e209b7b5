import type { ComponentChildren } from 'preact'
import { Scroll } from './scroll.tsx'

/** Head of a column: its name, or that and what it is like. */
export type Column = string | { readonly name: string; readonly like: 'number' | 'wide' | 'unseen' }

export interface TableProps {
  /** What it lists, for those who do not see it. */
  readonly label: string
  readonly columns: readonly Column[]
  /** Its rows. */
  readonly children: ComponentChildren
}

/** Rows under a head. */
export function Table({ label, columns, children }: TableProps) {
  return (
    <Scroll label={label}>
      <table style={nameColumns(columns.map((column) => (typeof column === 'string' ? column : column.name)))}>
        <thead>
          <tr>{columns.map(renderHead)}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </Scroll>
  )
}

function renderHead(column: Column) {
  const { name, like } = typeof column === 'string' ? { name: column, like: undefined } : column
  return (
    <th key={name} scope="col" class={like === 'unseen' ? undefined : like}>
      {like === 'unseen' ? <span class="unseen">{name}</span> : name}
    </th>
  )
}

/** Properties by which the style sheet names each cell where there is no room for a head: `--column-2` and so on. */
export function nameColumns(names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(names.map((name, at) => [`--column-${at + 1}`, JSON.stringify(name)]))
}

/** Defines a column of numbers. */
export function defineNumeric(name: string): Column {
  return { name, like: 'number' }
}
