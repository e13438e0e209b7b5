import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Scroll } from './scroll.tsx'
import { nameColumns } from './table.tsx'

export interface DataColumn<Row> {
  readonly name: string
  /** Sorts the rows, and is searched. */
  readonly value: (row: Row) => string | number
  /** Default: the value. */
  readonly cell?: (row: Row) => ComponentChildren
}

export interface DataTableProps<Row> {
  /** Name of the table, for screen readers. */
  readonly label: string
  /** The first one heads each row. */
  readonly columns: readonly DataColumn<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
}

/** Shorter tables are seen at a glance. */
const MIN_SEARCHED_ROWS = 6

interface Order {
  readonly name: string
  readonly isDescending: boolean
}

/** A table that can be searched, and sorted by any column. */
export function DataTable<Row>({ label, columns, rows, keyOf }: DataTableProps<Row>) {
  const [search, setSearch] = useState('')
  const [order, setOrder] = useState<Order>()
  const words = search.trim().toLowerCase()
  const found = rows.filter((row) => columns.some(({ value }) => `${value(row)}`.toLowerCase().includes(words)))
  const sorting = columns.find(({ name }) => name === order?.name)
  const shown = sorting ? found.toSorted((a, b) => compareValues(sorting.value(a), sorting.value(b))) : found
  if (order?.isDescending) shown.reverse()
  const toggle = (name: string, isNumber: boolean) =>
    setOrder({ name, isDescending: order?.name === name ? !order.isDescending : isNumber })
  return (
    <>
      {rows.length >= MIN_SEARCHED_ROWS && (
        <input
          type="search"
          aria-label={`Search: ${label}`}
          placeholder="Search"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      )}
      <Scroll label={label}>
        <table style={nameColumns(columns.map(({ name }) => name))}>
          <thead>
            <tr>
              {columns.map(({ name, value }) => {
                const isNumber = rows[0] !== undefined && typeof value(rows[0]) === 'number'
                const direction = order?.isDescending ? 'descending' : 'ascending'
                return (
                  <th
                    key={name}
                    scope="col"
                    class={isNumber ? 'number' : undefined}
                    aria-sort={order?.name === name ? direction : 'none'}
                  >
                    <button type="button" class="sort" onClick={() => toggle(name, isNumber)}>
                      {name}
                    </button>
                  </th>
                )
              })}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr key={keyOf(row)}>
                {columns.map(({ name, value, cell = value }, at) =>
                  at === 0 ? (
                    <th key={name} scope="row">
                      {cell(row)}
                    </th>
                  ) : (
                    <td key={name} class={typeof value(row) === 'number' ? 'number' : undefined}>
                      {cell(row)}
                    </td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </>
  )
}

function compareValues(a: string | number, b: string | number): number {
  return typeof a === 'number' && typeof b === 'number' ? a - b : `${a}`.localeCompare(`${b}`)
}
